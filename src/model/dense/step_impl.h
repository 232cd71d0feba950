// Step: one forward pass in the making. Owned by the engine thread for the time of one Forward.
//
// N = rows that still run, D = hidden_size, H = query heads, KV = heads of keys and values, d =
// head_dim, F = intermediate_size.

#pragma once

#include <cstdint>
#include <span>

#include "kernels/gqa_attention/op.h"
#include "model/dense/dense.h"
#include "tensor/buffer.h"

namespace sluice::model::dense {

// Room for all intermediate values of a step, laid out once.
struct Scratch {
  // A counting arena only adds up.
  Scratch(Arena& arena, const Config& config, const BatchLimits& limits);

  std::span<int32_t> row;                             // [N] in the batch; of a sequence together
  std::span<int32_t> position;                        // [N]
  std::span<int32_t> seq;                             // [N]
  std::span<ops::gqa_attention::Sequence> sequences;  // [n_seqs]
  std::span<float> x;                                 // [N, D] residual stream
  std::span<Bf16> u;                                  // [N, D] input of a site
  std::span<float> y;                                 // [N, D] output of a site
  std::span<float> cos, sin;                          // [N, d / 2]
  std::span<float> q;                                 // [N, H, d]
  std::span<float> k, v;                              // [N, KV, d]
  std::span<Bf16> o;                                  // [N, H, d]
  std::span<float> gate, up;                          // [N, F]
  std::span<Bf16> gated;                              // [N, F]
};

class Step {
 public:
  Step(const Dense& model,
       const StepBatch& batch,
       const Workspace& workspace,
       const StepOutputs& out,
       const Scratch& scratch);

  void Embed();
  void RunLayer(int32_t layer);
  void Head();

  int64_t n_rows() const { return n_rows_; }

 private:
  void StartRows();
  void StoreKeysAndValues(int32_t layer, const LayerWeights& weights);
  void DropRowsWithoutLogits();
  void Attend(int32_t layer, const LayerWeights& weights);
  void FeedForward(const LayerWeights& weights);

  const Row& RowOf(int64_t active) const {
    return batch_.rows[static_cast<size_t>(s_.row[static_cast<size_t>(active)])];
  }
  void Norm(const std::vector<float>& weight);  // x -> u
  void Linear(const Bf16* x, const Matrix& weight, float* out);
  void AddBias(const std::vector<float>& bias, float* rows);
  void AddToResidual();  // y
  void Rotate(int32_t n_heads, float* rows);
  void Note(std::string_view name,
            int32_t layer,
            std::initializer_list<int64_t> shape,
            const float* data) const;

  const Dense& model_;
  const Config& c_;
  const Weights& w_;
  const StepBatch& batch_;
  const Workspace& workspace_;
  Stream& stream_;
  const StepOutputs& out_;
  const Scratch& s_;
  int64_t n_rows_ = 0;
};

}  // namespace sluice::model::dense
