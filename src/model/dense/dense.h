// Dense: Llama-style decoders behind the model seam, over Config, Weights and the operators of
// `kernels`.
//
// Keys and values of every position lie in blocks, so there is no window, slots hold nothing, and
// nothing runs again behind a prefix hit. A row whose logits nobody needs ends inside the last
// layer, behind its key and value: exact, and always so.
//
// Immutable after construction; Forward is called by the engine thread.

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "model/dense/config.h"
#include "model/dense/source.h"
#include "model/dense/weights.h"
#include "model/model.h"
#include "tensor/buffer.h"

namespace sluice::model::dense {

class Dense final : public Model {
 public:
  struct Params {
    Config config;
    Weights weights;
    Buffer packed;                         // that packed weights lie in
    std::unique_ptr<const Source> source;  // that the others lie in; null: somebody else's
  };
  explicit Dense(Params params);

  const ModelInfo& info() const override { return info_; }
  int64_t WorkspaceBytes(const BatchLimits& limits) const override;
  Status Check(const StepBatch& batch, const BatchLimits& limits) const override;
  void Forward(const StepBatch& batch, const Workspace& workspace, const StepOutputs& out) override;

  const Config& config() const { return config_; }
  const Weights& weights() const { return weights_; }
  const std::vector<float>& frequencies() const { return frequencies_; }  // [head_dim / 2]

  // Components of a block: keys and values of each layer, [KV, head_dim] bf16 a position.
  static int32_t KeysOf(int32_t layer) { return 2 * layer; }
  static int32_t ValuesOf(int32_t layer) { return 2 * layer + 1; }

 private:
  const std::unique_ptr<const Source> source_;
  const Buffer packed_;
  const Config config_;
  const Weights weights_;
  const std::vector<float> frequencies_;
  const ModelInfo info_;
};

}  // namespace sluice::model::dense
