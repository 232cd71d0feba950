#include "model/dense/dense.h"

#include <fmt/format.h>

#include <utility>

#include "kernels/rotary/op.h"
#include "model/batch_check.h"
#include "model/dense/step_impl.h"

namespace sluice::model::dense {
namespace {

ModelInfo DescribeModel(const Config& c) {
  ModelInfo info{.n_vocab = c.vocab_size,
                 .n_context = c.max_position_embeddings,
                 .hidden_size = c.hidden_size,
                 .first_decoder_layer = c.num_hidden_layers - 1,
                 .n_layers = c.num_hidden_layers};
  if (c.eos_token_id >= 0) info.eos = TokenId(c.eos_token_id);
  const int32_t row_bytes = c.n_key_values() * static_cast<int32_t>(sizeof(Bf16));
  for (int32_t layer = 0; layer < c.num_hidden_layers; ++layer) {
    for (const char* name : {"keys", "values"}) {
      info.layout.block_components.push_back(
          {.name = fmt::format("{}.{}", name, layer), .row_bytes = row_bytes});
    }
  }
  return info;
}

}  // namespace

Dense::Dense(Params params)
    : source_(std::move(params.source)),
      packed_(std::move(params.packed)),
      config_(std::move(params.config)),
      weights_(std::move(params.weights)),
      frequencies_(
          ops::rotary::Frequencies({.n_rotated = config_.head_dim, .base = config_.rope_theta})),
      info_(DescribeModel(config_)) {}

int64_t Dense::WorkspaceBytes(const BatchLimits& limits) const {
  Arena counting;
  const Scratch scratch(counting, config_, limits);
  return counting.n_taken();
}

Status Dense::Check(const StepBatch& batch, const BatchLimits& limits) const {
  if (!batch.media.empty()) return Status::Invalid("this model takes no images");
  return CheckBatch(info_, batch, limits);
}

}  // namespace sluice::model::dense
