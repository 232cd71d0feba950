// Engram: what the table remembers of the last tokens, written into the residual streams (spec
// model.md §3.6).

#include <array>

#include "base/check.h"
#include "kernels/engram_gate/op.h"
#include "kernels/engram_lookup/op.h"
#include "model/deepseek_v41/step_impl.h"

namespace sluice::model::deepseek_v41 {
namespace {

constexpr int32_t kMaxNgram = 8;

}  // namespace

void Step::Engram(int32_t layer, const EngramWeights& weights) {
  const int64_t n = n_rows_;
  const int32_t n_lookups = c_.n_lookups();
  HashAll(layer);
  Note("engram_rows", layer, DType::kI64, {n, n_lookups}, s_.engram_rows.data());
  ops::engram_lookup::Run({.codes = weights.codes,
                           .scales = weights.scales,
                           .n_table_rows = weights.n_rows,
                           .head_dim = c_.engram_head_dim,
                           .table_rows = s_.engram_rows.data(),
                           .n_rows = n,
                           .n_lookups = n_lookups,
                           .out = s_.engram_values.data()},
                          stream_);
  Linear(s_.engram_values.data(), weights.wkv, n, s_.engram_kv.data());
  Note("engram_kv", layer, DType::kBf16, {n, weights.wkv.n_out}, s_.engram_kv.data());
  ops::engram_gate::Run({.streams = s_.streams.data(),
                         .kv = s_.engram_kv.data(),
                         .q_weight = weights.q_weight,
                         .k_weight = weights.k_weight,
                         .is_image = s_.is_image.data(),
                         .n_rows = n,
                         .n_streams = c_.hc_mult,
                         .n_columns = c_.hidden_size,
                         .eps = static_cast<float>(c_.rms_norm_eps),
                         .gate = s_.engram_gate.data()},
                        stream_);
  Note("engram_gate", layer, DType::kF32, {n, c_.hc_mult}, s_.engram_gate.data());
}

// Looks back over the sequence's rows in this step, which may be more than those still active, and
// then over its history.
void Step::HashAll(int32_t layer) {
  const Tables& tables = model_.tables();
  const auto index = static_cast<size_t>(c_.EngramIndex(layer));
  const int32_t n_back = c_.engram_max_ngram_size;
  SLUICE_CHECK(n_back <= kMaxNgram);
  for (int64_t row = 0; row < n_rows_; ++row) {
    const SeqView& seq = SeqOf(row);
    const int32_t at = s_.row[static_cast<size_t>(row)] - seq.first_row;
    std::array<int32_t, kMaxNgram> classes;
    size_t n_classes = 0;
    for (int32_t i = at; i > at - n_back; --i) {
      TokenId token = kImageToken;
      if (i >= 0) {
        const Row& r = batch_.rows[static_cast<size_t>(seq.first_row + i)];
        if ((r.flags & kImage) == 0) token = r.token;
      } else if (-i <= std::ssize(seq.history)) {
        token = seq.history[seq.history.size() - static_cast<size_t>(-i)];
      } else {
        break;
      }
      classes[n_classes++] =
          token == kImageToken ? kNoClass : tables.token_classes[static_cast<size_t>(token.value)];
    }
    HashRows(tables.engram.layers[index], std::span(classes).first(n_classes), tables.pad_class,
             s_.engram_rows.data() + row * c_.n_lookups());
  }
}

}  // namespace sluice::model::deepseek_v41
