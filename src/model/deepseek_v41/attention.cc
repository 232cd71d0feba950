// Attention of one layer (spec model.md §3.4): queries, the window row, chosen entries, output.

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/linear/op.h"
#include "kernels/quantize/op.h"
#include "kernels/sparse_attention/op.h"
#include "model/deepseek_v41/step_impl.h"

namespace sluice::model::deepseek_v41 {

void Step::Attention(int32_t layer, const LayerWeights& weights) {
  const Tables& tables = model_.tables();
  const bool is_plain = c_.ratio(layer) == 0;
  TurnAngles(is_plain ? tables.plain_frequencies : tables.yarn_frequencies,
             s_.position.first(static_cast<size_t>(n_rows_)), s_.cos, s_.sin);
  Query(weights.attn);
  Note("q", layer, DType::kBf16, {n_rows_, c_.num_attention_heads, c_.head_dim}, s_.q.data());
  Window(layer, weights.attn);
  if (weights.index) Select(layer, *weights.index);
  Attend(layer, weights.attn);
  Note("attn_o", layer, DType::kBf16, {n_rows_, c_.num_attention_heads, c_.head_dim}, s_.o.data());
  Output(weights.attn);
  StoreWindow(layer);
}

// qr stays in scratch: the index queries read it, too. No norm of the heads, no quantisation of q.
void Step::Query(const AttentionWeights& weights) {
  Linear(s_.u.data(), weights.wq_a, n_rows_, s_.qr.data());
  Norm(s_.qr.data(), weights.q_norm, n_rows_, c_.q_lora_rank);
  Linear(s_.qr.data(), weights.wq_b, n_rows_, s_.q.data());
  Rotate({.x = s_.q.data(),
          .n = n_rows_,
          .n_heads = c_.num_attention_heads,
          .head_dim = c_.head_dim,
          .cos = s_.cos.data(),
          .sin = s_.sin.data()});
}

// The row of each position that this layer's later rows see in full: key and value in one.
void Step::Window(int32_t layer, const AttentionWeights& weights) {
  Linear(s_.u.data(), weights.wkv, n_rows_, s_.kv.data());
  Norm(s_.kv.data(), weights.kv_norm, n_rows_, c_.head_dim);
  Rotate({.x = s_.kv.data(),
          .n = n_rows_,
          .head_dim = c_.head_dim,
          .cos = s_.cos.data(),
          .sin = s_.sin.data()});
  ops::quantize::Run({.format = GroupFormat::kFp8,
                      .x = s_.kv.data(),
                      .x_stride = c_.head_dim,
                      .n_rows = n_rows_,
                      .n_columns = c_.head_dim,
                      .stored = s_.window_rows.data(),
                      .values = nullptr},
                     stream_);
  Note("window_rows", layer, DType::kU8, {n_rows_, RowBytes(GroupFormat::kFp8, c_.head_dim)},
       s_.window_rows.data());
}

void Step::Attend(int32_t layer, const AttentionWeights& weights) {
  const auto l = static_cast<size_t>(layer);
  const int64_t row_bytes = RowBytes(GroupFormat::kFp8, c_.head_dim);
  const bool has_entries = c_.ratio(layer) != 0;
  const int32_t entries =
      has_entries ? state_.entries[static_cast<size_t>(c_.KvSource(layer))] : -1;
  for (int64_t row = 0; row < n_rows_; ++row) {
    const SeqView& seq = SeqOf(row);
    const int32_t first = s_.first[static_cast<size_t>(s_.seq[static_cast<size_t>(row)])];
    ops::sparse_attention::Row& r = s_.attention_rows[static_cast<size_t>(row)];
    r = {.position = s_.position[static_cast<size_t>(row)],
         .ring = workspace_.memory.Slot(state_.windows[l], seq.slot).data(),
         .ring_rows = RingRows(c_),
         .step_rows = s_.window_rows.data() + first * row_bytes,
         .step_begin = s_.position[static_cast<size_t>(first)],
         .window_begin = InDecoder(layer) ? seq.decoder_window_begin : seq.window_begin};
    if (has_entries) {
      r.entries = workspace_.memory.Pages(entries, seq.blocks);
      r.chosen = s_.chosen.data() + row * c_.index_topk;
    }
  }
  ops::sparse_attention::Run({.q = s_.q.data(),
                              .rows = s_.attention_rows.data(),
                              .n_rows = n_rows_,
                              .n_heads = c_.num_attention_heads,
                              .head_dim = c_.head_dim,
                              .n_window = c_.sliding_window,
                              .n_chosen_max = c_.index_topk,
                              .sink = weights.sink,
                              .scale = AttentionScale(),
                              .out = s_.o.data()},
                             stream_);
}

float Step::AttentionScale() const {
  return static_cast<float>(std::pow(static_cast<double>(c_.head_dim), -0.5));
}

// The values carry their absolute rotation, so it is undone; then two low-rank products, the first
// one per group of heads.
void Step::Output(const AttentionWeights& weights) {
  Rotate({.x = s_.o.data(),
          .n = n_rows_,
          .n_heads = c_.num_attention_heads,
          .head_dim = c_.head_dim,
          .cos = s_.cos.data(),
          .sin = s_.sin.data(),
          .inverse = true});
  // The input of wo_a is not quantised, although the weight is (spec model.md §2.5).
  for (int32_t group = 0; group < c_.o_groups; ++group) {
    ops::linear::Run(
        {.x = s_.o.data() + int64_t{group} * c_.n_group_inputs(),
         .x_stride = c_.n_query_values(),
         .n_rows = n_rows_,
         .weight = RowsOf(weights.wo_a, int64_t{group} * c_.o_lora_rank, c_.o_lora_rank),
         .out = s_.z.data() + int64_t{group} * c_.o_lora_rank,
         .out_f32 = nullptr,
         .out_stride = c_.n_group_outputs()},
        stream_);
  }
  Linear(s_.z.data(), weights.wo_b, n_rows_, s_.y.data());
}

// After the step's rows have read the ring: a long chunk would overwrite what its first rows need.
void Step::StoreWindow(int32_t layer) {
  const int64_t row_bytes = RowBytes(GroupFormat::kFp8, c_.head_dim);
  const int32_t ring_rows = RingRows(c_);
  for (size_t seq = 0; seq < batch_.seqs.size(); ++seq) {
    const int32_t n = s_.n_of_seq[seq];
    uint8_t* ring =
        workspace_.memory.Slot(state_.windows[static_cast<size_t>(layer)], batch_.seqs[seq].slot)
            .data();
    for (int32_t i = std::max(0, n - ring_rows); i < n; ++i) {
      const int32_t row = s_.first[seq] + i;
      const int32_t place = s_.position[static_cast<size_t>(row)] % ring_rows;
      std::memcpy(ring + place * row_bytes, s_.window_rows.data() + row * row_bytes,
                  static_cast<size_t>(row_bytes));
    }
  }
}

}  // namespace sluice::model::deepseek_v41
