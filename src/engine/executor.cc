// hop 6 of 10: after Plan, before Forward.

#include "engine/executor.h"

#include <utility>

#include "base/check.h"

namespace sluice::engine {

Result<std::unique_ptr<Executor>> Executor::Open(const Params& params, model::LoadedModel loaded) {
  std::unique_ptr<Executor> executor(
      new Executor(params, std::move(loaded)));  // tidy: allow, private
  SLUICE_TRY(model::Sequences sequences,
             model::Sequences::Open(*executor->loaded_.model, executor->stream_,
                                    {.n_seqs = params.n_slots,
                                     .n_context = params.n_context,
                                     .n_rows = params.n_rows,
                                     .n_logits = params.n_slots}));
  executor->sequences_.emplace(std::move(sequences));
  return executor;
}

Executor::Executor(const Params& params, model::LoadedModel loaded)
    : loaded_(std::move(loaded)),
      team_(params.n_threads),
      stream_{.team = team_, .arithmetic = params.arithmetic} {}

std::span<float> Executor::Run(const StepPlan& plan) {
  parts_.clear();
  for (const StepPlan::Part& part : plan.parts) {
    parts_.push_back({.seq = part.slot, .tokens = part.tokens, .n_logits = part.draws ? 1 : 0});
  }
  Result<model::Sequences::Outputs> outputs = sequences_->Run(parts_);
  SLUICE_CHECK(outputs.has_value());
  outputs_ = std::move(*outputs);
  return outputs_.logits;
}

}  // namespace sluice::engine
