// DeepSeek-V4.1: the model seam over Config, Weights and the operators of `kernels`.
//
// Immutable after construction; Forward is called by the engine thread.

#pragma once

#include <cstdint>
#include <vector>

#include "model/deepseek_v41/config.h"
#include "model/deepseek_v41/engram_hash.h"
#include "model/deepseek_v41/layout.h"
#include "model/deepseek_v41/weights.h"
#include "model/model.h"
#include "tensor/buffer.h"

namespace sluice::model::deepseek_v41 {

struct Scratch;

// What the layers share beyond their weights.
struct Tables {
  std::vector<float> plain_frequencies;  // layers of ratio 0 and the draft
  std::vector<float> yarn_frequencies;   // all others
  std::vector<int32_t> token_classes;    // token id -> Engram class
  EngramHash engram;
  int32_t pad_class = 0;
};

EngramHashParams HashParamsOf(const Config& config);
// The hash must fall into the tables: their sizes derive from the same primes.
Status CheckEngramRows(const Config& config);

class DeepseekV41 final : public Model {
 public:
  struct Params {
    Config config;
    Weights weights;                     // its checkpoint outlives the model
    Buffer packed;                       // that packed weights lie in
    std::vector<int32_t> token_classes;  // [vocab_size], classes below the config's count
  };
  explicit DeepseekV41(Params params);

  const ModelInfo& info() const override { return info_; }
  int64_t WorkspaceBytes(const BatchLimits& limits) const override;
  Status Check(const StepBatch& batch, const BatchLimits& limits) const override;
  void Forward(const StepBatch& batch, const Workspace& workspace, const StepOutputs& out) override;

  const Config& config() const { return config_; }
  const Weights& weights() const { return weights_; }
  const StateIndex& state() const { return state_; }
  const Tables& tables() const { return tables_; }

 private:
  const Config config_;
  const Weights weights_;
  const Buffer packed_;
  const StateIndex state_;
  const Tables tables_;
  const ModelInfo info_;
};

}  // namespace sluice::model::deepseek_v41
