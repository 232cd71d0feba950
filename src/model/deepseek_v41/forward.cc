// hop 7 of 10: after Run, before Sample.
//
// The forward pass in the order of spec model.md §3.2. Each row goes its own way: nothing here sums
// over rows.

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "kernels/hyper_collapse/op.h"
#include "kernels/hyper_expand/op.h"
#include "kernels/hyper_mix/op.h"
#include "kernels/linear/op.h"
#include "kernels/quantize/op.h"
#include "kernels/rms_norm/op.h"
#include "kernels/rotary/op.h"
#include "model/deepseek_v41/step_impl.h"

namespace sluice::model::deepseek_v41 {

void DeepseekV41::Forward(const StepBatch& batch,
                          const Workspace& workspace,
                          const StepOutputs& out) {
  Arena arena(workspace.scratch);
  BatchLimits limits{.n_rows = static_cast<int32_t>(batch.rows.size()),
                     .n_seqs = static_cast<int32_t>(batch.seqs.size())};
  for (const Row& row : batch.rows) {
    if ((row.flags & kNeedsLogits) != 0) ++limits.n_logits;
    limits.n_context = std::max(limits.n_context, row.pos + 1);
  }
  const Scratch scratch(arena, config_, limits);
  Step step(*this, batch, workspace, out, scratch);
  step.Embed();
  for (int32_t layer = 0; layer < config_.num_hidden_layers && step.n_rows() > 0; ++layer) {
    step.RunLayer(layer);
  }
  step.Head();
}

void Step::RunLayer(int32_t layer) {
  const LayerWeights& weights = w_.layers[static_cast<size_t>(layer)];
  if (weights.engram) Engram(layer, *weights.engram);
  RunBlock(layer);
}

void Step::RunBlock(int32_t layer) {
  const LayerWeights& weights = w_.layers[static_cast<size_t>(layer)];
  // The incoming mix, made at the layer below: hyper-connections lag by one site (§3.2, step 4).
  Collapse(s_.mix.data(), weights.attn_norm, s_.u.data());
  if (weights.compressor) WriteEntries(layer, *weights.compressor);
  if (layer == c_.decoder_start()) DropKvOnlyRows();
  Tap(layer);

  const int64_t n = n_rows_;
  const int64_t S = c_.hc_mult;
  const int64_t D = c_.hidden_size;
  Note("streams_in", layer, DType::kBf16, {n, S, D}, s_.streams.data());
  Note("mix_in", layer, DType::kF32, {n, S}, s_.mix.data());
  Note("attn_in", layer, DType::kBf16, {n, D}, s_.u.data());
  Mix(weights.hc_attn, {s_.pre.data(), s_.post.data(), s_.comb.data()});
  Note("attn_pre", layer, DType::kF32, {n, S}, s_.pre.data());
  Note("attn_post", layer, DType::kF32, {n, S}, s_.post.data());
  Note("attn_comb", layer, DType::kF32, {n, S, S}, s_.comb.data());
  Attention(layer, weights);
  Note("attn_out", layer, DType::kBf16, {n, D}, s_.y.data());
  Expand(s_.y.data(), s_.post.data(), s_.comb.data());
  Note("streams_mid", layer, DType::kBf16, {n, S, D}, s_.streams.data());

  Mix(weights.hc_ffn, {s_.ffn_pre.data(), s_.ffn_post.data(), s_.ffn_comb.data()});
  Note("ffn_post", layer, DType::kF32, {n, S}, s_.ffn_post.data());
  Note("ffn_comb", layer, DType::kF32, {n, S, S}, s_.ffn_comb.data());
  Collapse(s_.pre.data(), weights.ffn_norm, s_.u.data());
  Note("ffn_in", layer, DType::kBf16, {n, D}, s_.u.data());
  Moe(layer, weights.ffn, c_.num_experts_per_tok);
  Note("ffn_out", layer, DType::kBf16, {n, D}, s_.y.data());
  Expand(s_.y.data(), s_.ffn_post.data(), s_.ffn_comb.data());
  std::copy_n(s_.ffn_pre.begin(), n * S, s_.mix.begin());
  Note("streams_out", layer, DType::kBf16, {n, S, D}, s_.streams.data());
  Note("mix_out", layer, DType::kF32, {n, S}, s_.mix.data());
}

Step::Step(const DeepseekV41& model,
           const StepBatch& batch,
           const Workspace& workspace,
           const StepOutputs& out,
           const Scratch& scratch)
    : model_(model),
      c_(model.config()),
      w_(model.weights()),
      state_(model.state()),
      batch_(batch),
      workspace_(workspace),
      stream_(workspace.stream),
      out_(out),
      s_(scratch) {
  StartRows();
}

void Step::StartRows() {
  n_rows_ = std::ssize(batch_.rows);
  for (size_t seq = 0; seq < batch_.seqs.size(); ++seq) {
    const SeqView& view = batch_.seqs[seq];
    for (int32_t i = 0; i < view.n_rows; ++i) {
      const auto r = static_cast<size_t>(view.first_row + i);
      s_.row[r] = view.first_row + i;
      s_.position[r] = batch_.rows[r].pos;
      s_.seq[r] = static_cast<int32_t>(seq);
      s_.is_image[r] = (batch_.rows[r].flags & kImage) != 0 ? 1 : 0;
    }
  }
  CountRows();
}

void Step::CountRows() {
  std::fill(s_.n_of_seq.begin(), s_.n_of_seq.end(), 0);
  for (int64_t row = n_rows_ - 1; row >= 0; --row) {
    const auto seq = static_cast<size_t>(s_.seq[static_cast<size_t>(row)]);
    s_.first[seq] = static_cast<int32_t>(row);
    ++s_.n_of_seq[seq];
  }
}

// Rows whose logits and windows nobody needs end here: what they leave behind for others is
// written (spec model.md §4.4; the cut is inside the first decoder layer).
void Step::DropKvOnlyRows() {
  const int64_t S = c_.hc_mult;
  const int64_t D = c_.hidden_size;
  int64_t kept = 0;
  for (int64_t row = 0; row < n_rows_; ++row) {
    if ((RowOf(row).flags & kKvOnly) != 0) continue;
    if (kept != row) {
      const auto from = static_cast<size_t>(row);
      const auto to = static_cast<size_t>(kept);
      s_.row[to] = s_.row[from];
      s_.position[to] = s_.position[from];
      s_.seq[to] = s_.seq[from];
      s_.is_image[to] = s_.is_image[from];
      std::copy_n(s_.streams.begin() + row * S * D, S * D, s_.streams.begin() + kept * S * D);
      std::copy_n(s_.mix.begin() + row * S, S, s_.mix.begin() + kept * S);
      std::copy_n(s_.u.begin() + row * D, D, s_.u.begin() + kept * D);
    }
    ++kept;
  }
  n_rows_ = kept;
  CountRows();
}

// Every stream begins as the embedding; the first site reads stream 0 (spec model.md §3.1).
void Step::Embed() {
  const int64_t S = c_.hc_mult;
  const int64_t D = c_.hidden_size;
  for (int64_t row = 0; row < n_rows_; ++row) {
    const Row& r = RowOf(row);
    const Bf16* embedding =
        r.media_row >= 0 ? batch_.media.data() + r.media_row * D : w_.EmbeddingRow(r.token.value);
    for (int64_t i = 0; i < S; ++i) {
      std::copy_n(embedding, D, s_.streams.begin() + (row * S + i) * D);
      s_.mix[static_cast<size_t>(row * S + i)] = i == 0 ? 1.0F : 0.0F;
    }
  }
}

void Step::Head() {
  const int64_t D = c_.hidden_size;
  Collapse(s_.mix.data(), w_.norm, s_.u.data());
  Note("final_hidden", -1, DType::kBf16, {n_rows_, D}, s_.u.data());
  int64_t n_logits = 0;
  for (int64_t row = 0; row < n_rows_; ++row) {
    if ((RowOf(row).flags & kNeedsLogits) == 0) continue;
    std::copy_n(s_.u.begin() + row * D, D, s_.hidden.begin() + n_logits * D);
    ++n_logits;
  }
  if (n_logits > 0) LinearF32(s_.hidden.data(), w_.head, n_logits, out_.logits);
}

// What the draft reads: the mean of the streams entering a target layer (spec model.md §3.2, 2).
void Step::Tap(int32_t layer) {
  if (out_.taps == nullptr) return;
  const std::vector<int32_t>& targets = c_.dspark_target_layer_ids;
  const auto at = std::find(targets.begin(), targets.end(), layer);
  if (at == targets.end()) return;
  ops::hyper_collapse::Run({.streams = s_.streams.data(),
                            .mix = nullptr,
                            .n_rows = n_rows_,
                            .n_streams = c_.hc_mult,
                            .n_columns = c_.hidden_size,
                            .out = out_.taps + (at - targets.begin()) * c_.hidden_size,
                            .out_stride = int64_t{c_.n_taps()} * c_.hidden_size},
                           stream_);
}

void Step::Mix(const HyperWeights& weights, const HyperOut& out) {
  ops::hyper_mix::Run({.streams = s_.streams.data(),
                       .n_rows = n_rows_,
                       .n_streams = c_.hc_mult,
                       .n_columns = c_.hidden_size,
                       .fn = weights.fn,
                       .base = weights.base,
                       .scale = weights.scale,
                       .rms_eps = static_cast<float>(c_.rms_norm_eps),
                       .hc_eps = static_cast<float>(c_.hc_eps),
                       .n_iterations = c_.hc_sinkhorn_iters,
                       .pre = out.pre,
                       .post = out.post,
                       .comb = out.comb,
                       .p = s_.projection.data()},
                      stream_);
}

void Step::Collapse(const float* mix, const Bf16* norm, Bf16* out) {
  CollapseOnly(mix, out);
  Norm(out, norm, n_rows_, c_.hidden_size);
}

void Step::CollapseOnly(const float* mix, Bf16* out) {
  ops::hyper_collapse::Run({.streams = s_.streams.data(),
                            .mix = mix,
                            .n_rows = n_rows_,
                            .n_streams = c_.hc_mult,
                            .n_columns = c_.hidden_size,
                            .out = out,
                            .out_stride = c_.hidden_size},
                           stream_);
}

void Step::Expand(const Bf16* y, const float* post, const float* comb) {
  ops::hyper_expand::Run({.y = y,
                          .streams = s_.streams.data(),
                          .post = post,
                          .comb = comb,
                          .n_rows = n_rows_,
                          .n_streams = c_.hc_mult,
                          .n_columns = c_.hidden_size},
                         stream_);
}

const Bf16* Step::Quantized(const Bf16* x, int64_t n, int32_t n_columns) {
  ops::quantize::Run({.format = GroupFormat::kFp8,
                      .x = x,
                      .x_stride = n_columns,
                      .n_rows = n,
                      .n_columns = n_columns,
                      .stored = nullptr,
                      .values = s_.quantized.data()},
                     stream_);
  return s_.quantized.data();
}

void Step::Linear(const Bf16* x, const Matrix& weight, int64_t n, Bf16* out) {
  if (IsQuantized(weight.format)) x = Quantized(x, n, static_cast<int32_t>(weight.n_in));
  ops::linear::Run({.x = x,
                    .x_stride = weight.n_in,
                    .n_rows = n,
                    .weight = weight,
                    .out = out,
                    .out_f32 = nullptr,
                    .out_stride = weight.n_out},
                   stream_);
}

void Step::LinearF32(const Bf16* x, const Matrix& weight, int64_t n, float* out) {
  ops::linear::Run({.x = x,
                    .x_stride = weight.n_in,
                    .n_rows = n,
                    .weight = weight,
                    .out = nullptr,
                    .out_f32 = out,
                    .out_stride = weight.n_out},
                   stream_);
}

void Step::Norm(Bf16* x, const Bf16* weight, int64_t n, int32_t n_columns) {
  ops::rms_norm::Run({.x = x,
                      .x_stride = n_columns,
                      .n_rows = n,
                      .n_columns = n_columns,
                      .weight = weight,
                      .eps = static_cast<float>(c_.rms_norm_eps),
                      .out = x,
                      .out_stride = n_columns},
                     stream_);
}

void Step::TurnAngles(const std::vector<float>& frequencies,
                      std::span<const int32_t> positions,
                      std::span<float> cos,
                      std::span<float> sin) {
  ops::rotary::Angles({.positions = positions.data(),
                       .n_rows = std::ssize(positions),
                       .frequencies = frequencies.data(),
                       .n_pairs = c_.n_rotary_pairs(),
                       .cos = cos.data(),
                       .sin = sin.data()},
                      stream_);
}

void Step::Rotate(const RotateParams& params) {
  ops::rotary::Run({.x = params.x,
                    .x_stride = int64_t{params.n_heads} * params.head_dim,
                    .n_rows = params.n,
                    .n_heads = params.n_heads,
                    .head_dim = params.head_dim,
                    .cos = params.cos,
                    .sin = params.sin,
                    .n_pairs = c_.n_rotary_pairs(),
                    .inverse = params.inverse},
                   stream_);
}

void Step::Note(std::string_view name,
                int32_t layer,
                DType dtype,
                std::initializer_list<int64_t> shape,
                const void* data) const {
  if (out_.trace == nullptr) return;
  out_.trace->note(out_.trace->context, {.name = name,
                                         .layer = layer,
                                         .dtype = dtype,
                                         .shape = {shape.begin(), shape.size()},
                                         .data = data});
}

}  // namespace sluice::model::deepseek_v41
