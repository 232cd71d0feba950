// What a KV source leaves for all layers of its group and for the prefix cache: compressed entries
// and index keys (spec model.md §3.4, "Compressor" and "Index keys").

#include <algorithm>
#include <cstring>

#include "kernels/compress_pair/op.h"
#include "kernels/quantize/op.h"
#include "model/deepseek_v41/step_impl.h"

namespace sluice::model::deepseek_v41 {

void Step::WriteEntries(int32_t layer, const CompressorWeights& weights) {
  const int64_t n_entries =
      c_.ratio(layer) == 1 ? CompressSingles(weights) : CompressPairs(layer, weights);
  if (n_entries > 0) StoreEntries(layer, weights, n_entries);
}

// Ratio 1: each row is an entry. Replayed rows have theirs.
int64_t Step::CompressSingles(const CompressorWeights& weights) {
  const int64_t D = c_.hidden_size;
  int64_t n = 0;
  for (int64_t row = 0; row < n_rows_; ++row) {
    if ((RowOf(row).flags & kReplay) != 0) continue;
    s_.entry_row[static_cast<size_t>(n)] = static_cast<int32_t>(row);
    s_.entry_position[static_cast<size_t>(n)] = s_.position[static_cast<size_t>(row)];
    // y is free until this layer's attention has an output.
    std::copy_n(s_.u.begin() + row * D, D, s_.y.begin() + n * D);
    ++n;
  }
  if (n == 0) return 0;
  Linear(s_.y.data(), weights.wkv, n, s_.latent.data());
  Norm(s_.latent.data(), weights.norm, n, c_.head_dim);
  return n;
}

// Ratio 2: an entry comes into being with the second token of its pair; the first one's value and
// gate wait in the slot, not rounded.
int64_t Step::CompressPairs(int32_t layer, const CompressorWeights& weights) {
  LinearF32(s_.u.data(), weights.wkv, n_rows_, s_.value.data());
  LinearF32(s_.u.data(), weights.wgate, n_rows_, s_.gate.data());
  const int64_t n = GatherPairs(layer);
  if (n > 0) {
    ops::compress_pair::Run(
        {.pairs = s_.pairs.data(), .n_pairs = n, .n_columns = c_.head_dim, .out = s_.latent.data()},
        stream_);
  }
  // Not before the pairs were read: the first of them may wait where a later row of this step goes.
  KeepOpen(layer);
  if (n == 0) return 0;
  Norm(s_.latent.data(), weights.norm, n, c_.head_dim);
  return n;
}

// Pairs that this step completes; one that straddles a prefix hit is written with its second token
// (spec model.md §4.4, "An odd hit").
int64_t Step::GatherPairs(int32_t layer) {
  const auto d = static_cast<size_t>(c_.head_dim);
  int64_t n = 0;
  for (int64_t row = 0; row < n_rows_; ++row) {
    const int32_t pos = s_.position[static_cast<size_t>(row)];
    if (pos % 2 == 0 || (RowOf(row).flags & kReplay) != 0) continue;
    const float* value = s_.value.data() + row * c_.head_dim;
    const float* gate = s_.gate.data() + row * c_.head_dim;
    const float* waiting = OpenRow(layer, row);
    const bool first_is_here =
        row > s_.first[static_cast<size_t>(s_.seq[static_cast<size_t>(row)])];
    s_.pairs[static_cast<size_t>(n)] = {.value = {first_is_here ? value - d : waiting, value},
                                        .gate = {first_is_here ? gate - d : waiting + d, gate}};
    s_.entry_row[static_cast<size_t>(n)] = static_cast<int32_t>(row);
    s_.entry_position[static_cast<size_t>(n)] = pos - 1;  // of the first token
    ++n;
  }
  return n;
}

// Even positions, replayed ones included, are kept for the odd one that may come in a later step.
void Step::KeepOpen(int32_t layer) {
  const auto d = static_cast<size_t>(c_.head_dim);
  for (int64_t row = 0; row < n_rows_; ++row) {
    if (s_.position[static_cast<size_t>(row)] % 2 != 0) continue;
    float* waiting = OpenRow(layer, row);
    std::memcpy(waiting, s_.value.data() + row * c_.head_dim, d * sizeof(float));
    std::memcpy(waiting + d, s_.gate.data() + row * c_.head_dim, d * sizeof(float));
  }
}

// Where value and gate of the pair's first token wait.
float* Step::OpenRow(int32_t layer, int64_t row) const {
  const int32_t open = state_.open[static_cast<size_t>(layer)];
  const int32_t pair = s_.position[static_cast<size_t>(row)] / 2;
  return reinterpret_cast<float*>(workspace_.memory.Slot(open, SeqOf(row).slot).data()) +
         int64_t{pair % OpenRows(c_)} * 2 * c_.head_dim;
}

// latent [n, d] -> stored entries and index keys. Both are turned by the entry's position with the
// compressed layers' table; the key is made from the latent as it was before.
void Step::StoreEntries(int32_t layer, const CompressorWeights& weights, int64_t n) {
  const auto l = static_cast<size_t>(layer);
  TurnAngles(model_.tables().yarn_frequencies, s_.entry_position.first(static_cast<size_t>(n)),
             s_.entry_cos, s_.entry_sin);
  Linear(s_.latent.data(), weights.index_wk, n, s_.key.data());
  Norm(s_.key.data(), weights.index_k_norm, n, c_.index_head_dim);
  const auto rotate = [&](Bf16* x, int32_t width) {
    Rotate({.x = x,
            .n = n,
            .head_dim = width,
            .cos = s_.entry_cos.data(),
            .sin = s_.entry_sin.data()});
  };
  rotate(s_.key.data(), c_.index_head_dim);
  rotate(s_.latent.data(), c_.head_dim);
  const auto quantize = [&](GroupFormat format, const Bf16* x, int32_t width, uint8_t* stored) {
    ops::quantize::Run({.format = format,
                        .x = x,
                        .x_stride = width,
                        .n_rows = n,
                        .n_columns = width,
                        .stored = stored,
                        .values = nullptr},
                       stream_);
  };
  quantize(GroupFormat::kFp4Mx, s_.key.data(), c_.index_head_dim, s_.key_rows.data());
  quantize(GroupFormat::kFp4Nv, s_.latent.data(), c_.head_dim, s_.entry_rows.data());
  const int32_t key_bytes = RowBytes(GroupFormat::kFp4Mx, c_.index_head_dim);
  const int32_t entry_bytes = RowBytes(GroupFormat::kFp4Nv, c_.head_dim);
  Note("key_rows", layer, DType::kU8, {n, key_bytes}, s_.key_rows.data());
  Note("entry_rows", layer, DType::kU8, {n, entry_bytes}, s_.entry_rows.data());
  for (int64_t i = 0; i < n; ++i) {
    const auto at = static_cast<size_t>(i);
    const std::span<const BlockId> blocks = SeqOf(s_.entry_row[at]).blocks;
    const int64_t entry = s_.entry_position[at] / c_.ratio(layer);
    std::memcpy(workspace_.memory.Row(state_.keys[l], blocks, entry),
                s_.key_rows.data() + i * key_bytes, static_cast<size_t>(key_bytes));
    std::memcpy(workspace_.memory.Row(state_.entries[l], blocks, entry),
                s_.entry_rows.data() + i * entry_bytes, static_cast<size_t>(entry_bytes));
  }
}

}  // namespace sluice::model::deepseek_v41
