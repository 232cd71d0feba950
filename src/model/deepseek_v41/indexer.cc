// Which compressed entries each row attends to (spec model.md §3.4, "Index queries", "Top-k",
// "Hierarchical candidates"). The choice serves this layer and those below it up to the next index
// source.

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/index_score/op.h"
#include "kernels/quantize/op.h"
#include "kernels/top_k/op.h"
#include "model/deepseek_v41/step_impl.h"

namespace sluice::model::deepseek_v41 {

void Step::Select(int32_t layer, const IndexQueryWeights& weights) {
  Linear(s_.qr.data(), weights.wq_b, n_rows_, s_.iq.data());
  Rotate({.x = s_.iq.data(),
          .n = n_rows_,
          .n_heads = c_.index_n_heads,
          .head_dim = c_.index_head_dim,
          .cos = s_.cos.data(),
          .sin = s_.sin.data()});
  // Each head is a row of its own to the quantiser; what is scored are the values behind the codes.
  std::vector<uint8_t> traced;
  const int32_t stored_bytes = RowBytes(GroupFormat::kFp4Mx, c_.index_head_dim);
  if (out_.trace != nullptr) {
    traced.resize(static_cast<size_t>(n_rows_ * c_.index_n_heads * stored_bytes));
  }
  ops::quantize::Run({.format = GroupFormat::kFp4Mx,
                      .x = s_.iq.data(),
                      .x_stride = c_.index_head_dim,
                      .n_rows = n_rows_ * c_.index_n_heads,
                      .n_columns = c_.index_head_dim,
                      .stored = traced.empty() ? nullptr : traced.data(),
                      .values = s_.iq.data()},
                     stream_);
  Note("index_q_rows", layer, DType::kU8, {n_rows_, c_.index_n_heads, stored_bytes}, traced.data());

  Linear(s_.u.data(), weights.weights_proj, n_rows_, s_.index_weights.data());
  const auto factor = static_cast<float>(std::pow(static_cast<double>(c_.index_head_dim), -0.5) *
                                         std::pow(static_cast<double>(c_.index_n_heads), -0.5));
  for (Bf16& weight : s_.index_weights.first(static_cast<size_t>(n_rows_ * c_.index_n_heads))) {
    weight = ToBf16(ToFloat(weight) * factor);
  }
  Note("index_weights", layer, DType::kBf16, {n_rows_, c_.index_n_heads}, s_.index_weights.data());
  // As many rows at a time as the score matrix holds.
  for (int64_t first = 0; first < n_rows_; first += s_.n_score_rows) {
    ScoreAndChoose(layer, first, std::min(s_.n_score_rows, n_rows_ - first));
  }
  Note("selected", layer, DType::kI32, {n_rows_, c_.index_topk}, s_.chosen.data());
  if (layer == c_.candidate_source_layer_id) {
    Note("candidate_blocks", layer, DType::kI32, {n_rows_, c_.candidate_topk_blocks},
         s_.candidates.data());
  }
}

// Columns up to the entries of the last row; what a row may not see was not written.
void Step::NoteScores(int32_t layer, int64_t n) {
  const int64_t n_entries = s_.n_visible[static_cast<size_t>(n - 1)];
  std::vector<float> table(static_cast<size_t>(n * n_entries),
                           -std::numeric_limits<float>::infinity());
  for (int64_t i = 0; i < n; ++i) {
    std::copy_n(s_.scores.begin() + i * s_.score_stride, s_.n_visible[static_cast<size_t>(i)],
                table.begin() + i * n_entries);
  }
  Note("index_scores", layer, DType::kF32, {n, n_entries}, table.data());
}

void Step::ScoreAndChoose(int32_t layer, int64_t first, int64_t n) {
  const int32_t source = c_.KvSource(layer);
  const int32_t keys = state_.keys[static_cast<size_t>(source)];
  for (int64_t i = 0; i < n; ++i) {
    const auto at = static_cast<size_t>(i);
    // An entry can be seen from the last of its tokens on.
    const int64_t n_visible =
        (int64_t{s_.position[static_cast<size_t>(first + i)]} + 1) / c_.ratio(layer);
    s_.n_visible[at] = n_visible;
    s_.score_rows[at] = {.keys = workspace_.memory.Pages(keys, SeqOf(first + i).blocks),
                         .n_visible = n_visible};
  }
  ops::index_score::Run({.q = s_.iq.data() + first * c_.index_n_heads * c_.index_head_dim,
                         .weights = s_.index_weights.data() + first * c_.index_n_heads,
                         .rows = s_.score_rows.data(),
                         .n_rows = n,
                         .n_heads = c_.index_n_heads,
                         .head_dim = c_.index_head_dim,
                         .scores = s_.scores.data(),
                         .stride = s_.score_stride},
                        stream_);
  if (out_.trace != nullptr) NoteScores(layer, n);
  int32_t* candidates = s_.candidates.data() + first * c_.candidate_topk_blocks;
  const bool makes = layer == c_.candidate_source_layer_id;
  const bool reads = layer > c_.candidate_source_layer_id;
  ops::top_k::Run({.scores = s_.scores.data(),
                   .stride = s_.score_stride,
                   .n_visible = s_.n_visible.data(),
                   .n_rows = n,
                   .n_chosen = c_.index_topk,
                   .chosen = s_.chosen.data() + first * c_.index_topk,
                   .inside = reads ? candidates : nullptr,
                   .candidates = makes ? candidates : nullptr,
                   .n_blocks = c_.candidate_topk_blocks,
                   .block_size = c_.candidate_block_size,
                   .scratch = s_.top_k.data()},
                  stream_);
}

}  // namespace sluice::model::deepseek_v41
