// hop 7 of 10: after Run, before Sample.
//
// The forward pass of a Llama-style decoder (Touvron et al., "LLaMA", 2023; Qwen2 adds biases to
// queries, keys and values). Each row goes its own way: nothing here sums over rows.
//
// What enters a matrix, keys and values are bf16; everything else is float32.

#include <algorithm>
#include <cmath>

#include "kernels/block_linear/op.h"
#include "kernels/linear/op.h"
#include "kernels/rms_norm/op.h"
#include "kernels/rotary/op.h"
#include "kernels/swiglu/op.h"
#include "model/dense/step_impl.h"

namespace sluice::model::dense {

void Dense::Forward(const StepBatch& batch, const Workspace& workspace, const StepOutputs& out) {
  Arena arena(workspace.scratch);
  const Scratch scratch(arena, config_,
                        {.n_rows = static_cast<int32_t>(batch.rows.size()),
                         .n_seqs = static_cast<int32_t>(batch.seqs.size())});
  Step step(*this, batch, workspace, out, scratch);
  step.Embed();
  for (int32_t layer = 0; layer < config_.num_hidden_layers && step.n_rows() > 0; ++layer) {
    step.RunLayer(layer);
  }
  step.Head();
}

void Step::RunLayer(int32_t layer) {
  const LayerWeights& weights = w_.layers[static_cast<size_t>(layer)];
  Note("layer_in", layer, {n_rows_, c_.hidden_size}, s_.x.data());
  Norm(weights.attention_norm);
  StoreKeysAndValues(layer, weights);
  if (layer + 1 == c_.num_hidden_layers) DropRowsWithoutLogits();
  Attend(layer, weights);
  Norm(weights.feed_forward_norm);
  FeedForward(weights);
}

Scratch::Scratch(Arena& arena, const Config& c, const BatchLimits& limits) {
  const int64_t n = limits.n_rows;
  for (auto* span : {&row, &position, &seq}) *span = arena.Take<int32_t>(n);
  sequences = arena.Take<ops::gqa_attention::Sequence>(limits.n_seqs);
  x = arena.Take<float>(n * c.hidden_size);
  u = arena.Take<Bf16>(n * c.hidden_size);
  y = arena.Take<float>(n * c.hidden_size);
  for (auto* span : {&cos, &sin}) *span = arena.Take<float>(n * (c.head_dim / 2));
  q = arena.Take<float>(n * c.n_query_values());
  for (auto* span : {&k, &v}) *span = arena.Take<float>(n * c.n_key_values());
  o = arena.Take<Bf16>(n * c.n_query_values());
  for (auto* span : {&gate, &up}) *span = arena.Take<float>(n * c.intermediate_size);
  gated = arena.Take<Bf16>(n * c.intermediate_size);
}

Step::Step(const Dense& model,
           const StepBatch& batch,
           const Workspace& workspace,
           const StepOutputs& out,
           const Scratch& scratch)
    : model_(model),
      c_(model.config()),
      w_(model.weights()),
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
    s_.sequences[seq] = {.first_row = view.first_row, .n_rows = view.n_rows};
    for (int32_t i = 0; i < view.n_rows; ++i) {
      const auto r = static_cast<size_t>(view.first_row + i);
      s_.row[r] = view.first_row + i;
      s_.position[r] = batch_.rows[r].pos;
      s_.seq[r] = static_cast<int32_t>(seq);
    }
  }
  ops::rotary::Angles({.positions = s_.position.data(),
                       .n_rows = n_rows_,
                       .frequencies = model_.frequencies().data(),
                       .n_pairs = c_.head_dim / 2,
                       .cos = s_.cos.data(),
                       .sin = s_.sin.data()},
                      stream_);
}

void Step::Embed() {
  stream_.team.Run(n_rows_, [&](int64_t begin, int64_t end, int32_t) {
    for (int64_t row = begin; row < end; ++row) {
      DecodeMatrixRow(w_.embedding, RowOf(row).token.value, s_.x.data() + row * c_.hidden_size);
    }
  });
}

// What later rows see of these. A replayed row finds its own in the blocks already.
void Step::StoreKeysAndValues(int32_t layer, const LayerWeights& weights) {
  Linear(s_.u.data(), weights.key, s_.k.data());
  Linear(s_.u.data(), weights.value, s_.v.data());
  AddBias(weights.key_bias, s_.k.data());
  AddBias(weights.value_bias, s_.v.data());
  Rotate(c_.num_key_value_heads, s_.k.data());
  Note("keys", layer, {n_rows_, c_.num_key_value_heads, c_.head_dim}, s_.k.data());
  Note("values", layer, {n_rows_, c_.num_key_value_heads, c_.head_dim}, s_.v.data());
  const int32_t n = c_.n_key_values();
  for (int64_t row = 0; row < n_rows_; ++row) {
    if ((RowOf(row).flags & kReplay) != 0) continue;
    const auto r = static_cast<size_t>(row);
    const std::span<const BlockId> blocks = batch_.seqs[static_cast<size_t>(s_.seq[r])].blocks;
    const auto store = [&](int32_t component, const float* values) {
      auto* stored =
          reinterpret_cast<Bf16*>(workspace_.memory.Row(component, blocks, s_.position[r]));
      std::transform(values, values + n, stored, ToBf16);
    };
    store(Dense::KeysOf(layer), s_.k.data() + row * n);
    store(Dense::ValuesOf(layer), s_.v.data() + row * n);
  }
}

// In the last layer nobody looks at the others' results any more.
void Step::DropRowsWithoutLogits() {
  const int64_t D = c_.hidden_size;
  const int64_t n_pairs = c_.head_dim / 2;
  for (ops::gqa_attention::Sequence& sequence : s_.sequences) sequence.n_rows = 0;
  int64_t n_kept = 0;
  for (int64_t row = 0; row < n_rows_; ++row) {
    if ((RowOf(row).flags & kNeedsLogits) == 0) continue;
    const auto from = static_cast<size_t>(row);
    const auto to = static_cast<size_t>(n_kept);
    ops::gqa_attention::Sequence& sequence = s_.sequences[static_cast<size_t>(s_.seq[from])];
    if (sequence.n_rows++ == 0) sequence.first_row = n_kept;
    if (from != to) {
      s_.row[to] = s_.row[from];
      s_.position[to] = s_.position[from];
      s_.seq[to] = s_.seq[from];
      std::copy_n(s_.x.begin() + row * D, D, s_.x.begin() + n_kept * D);
      std::copy_n(s_.u.begin() + row * D, D, s_.u.begin() + n_kept * D);
      std::copy_n(s_.cos.begin() + row * n_pairs, n_pairs, s_.cos.begin() + n_kept * n_pairs);
      std::copy_n(s_.sin.begin() + row * n_pairs, n_pairs, s_.sin.begin() + n_kept * n_pairs);
    }
    ++n_kept;
  }
  n_rows_ = n_kept;
}

void Step::Attend(int32_t layer, const LayerWeights& weights) {
  Linear(s_.u.data(), weights.query, s_.q.data());
  AddBias(weights.query_bias, s_.q.data());
  Rotate(c_.num_attention_heads, s_.q.data());
  Note("q", layer, {n_rows_, c_.num_attention_heads, c_.head_dim}, s_.q.data());
  for (size_t seq = 0; seq < batch_.seqs.size(); ++seq) {
    const std::span<const BlockId> blocks = batch_.seqs[seq].blocks;
    s_.sequences[seq].keys = workspace_.memory.Pages(Dense::KeysOf(layer), blocks);
    s_.sequences[seq].values = workspace_.memory.Pages(Dense::ValuesOf(layer), blocks);
  }
  ops::gqa_attention::Run({.q = s_.q.data(),
                           .positions = s_.position.data(),
                           .sequences = s_.sequences.data(),
                           .n_sequences = std::ssize(s_.sequences),
                           .n_heads = c_.num_attention_heads,
                           .n_kv_heads = c_.num_key_value_heads,
                           .head_dim = c_.head_dim,
                           .scale = 1.0F / std::sqrt(static_cast<float>(c_.head_dim)),
                           .out = s_.o.data()},
                          stream_);
  Linear(s_.o.data(), weights.output, s_.y.data());
  AddToResidual();
}

void Step::FeedForward(const LayerWeights& weights) {
  Linear(s_.u.data(), weights.gate, s_.gate.data());
  Linear(s_.u.data(), weights.up, s_.up.data());
  ops::swiglu::Run({.gate = s_.gate.data(),
                    .up = s_.up.data(),
                    .n = n_rows_ * c_.intermediate_size,
                    .out = s_.gated.data()},
                   stream_);
  Linear(s_.gated.data(), weights.down, s_.y.data());
  AddToResidual();
}

// Those that are left are the ones that need logits, in the order of the batch.
void Step::Head() {
  if (n_rows_ == 0) return;
  Note("final_hidden", -1, {n_rows_, c_.hidden_size}, s_.x.data());
  Norm(w_.norm);
  Linear(s_.u.data(), w_.head, out_.logits);
}

void Step::Norm(const std::vector<float>& weight) {
  ops::rms_norm::Run({.x_f32 = s_.x.data(),
                      .x_stride = c_.hidden_size,
                      .n_rows = n_rows_,
                      .n_columns = c_.hidden_size,
                      .weight_f32 = weight.data(),
                      .eps = static_cast<float>(c_.rms_norm_eps),
                      .out = s_.u.data(),
                      .out_stride = c_.hidden_size},
                     stream_);
}

void Step::Linear(const Bf16* x, const Matrix& weight, float* out) {
  if (IsBlockFormat(weight.format)) {
    ops::block_linear::Run({.x = x,
                            .x_stride = weight.n_in,
                            .n_rows = n_rows_,
                            .weight = weight,
                            .out_f32 = out,
                            .out_stride = weight.n_out},
                           stream_);
    return;
  }
  ops::linear::Run({.x = x,
                    .x_stride = weight.n_in,
                    .n_rows = n_rows_,
                    .weight = weight,
                    .out_f32 = out,
                    .out_stride = weight.n_out},
                   stream_);
}

void Step::AddBias(const std::vector<float>& bias, float* rows) {
  if (bias.empty()) return;
  const int64_t n = std::ssize(bias);
  for (int64_t i = 0; i < n_rows_ * n; ++i) rows[i] += bias[static_cast<size_t>(i % n)];
}

void Step::AddToResidual() {
  const int64_t n = n_rows_ * c_.hidden_size;
  float* x = s_.x.data();
  const float* y = s_.y.data();
  for (int64_t i = 0; i < n; ++i) x[i] += y[i];
}

void Step::Rotate(int32_t n_heads, float* rows) {
  ops::rotary::Run({.x_f32 = rows,
                    .x_stride = int64_t{n_heads} * c_.head_dim,
                    .n_rows = n_rows_,
                    .n_heads = n_heads,
                    .head_dim = c_.head_dim,
                    .cos = s_.cos.data(),
                    .sin = s_.sin.data(),
                    .n_pairs = c_.head_dim / 2,
                    .pairing = c_.pairing},
                   stream_);
}

void Step::Note(std::string_view name,
                int32_t layer,
                std::initializer_list<int64_t> shape,
                const float* data) const {
  if (out_.trace == nullptr) return;
  out_.trace->note(out_.trace->context, {.name = name,
                                         .layer = layer,
                                         .dtype = DType::kF32,
                                         .shape = {shape.begin(), shape.size()},
                                         .data = data});
}

}  // namespace sluice::model::dense
