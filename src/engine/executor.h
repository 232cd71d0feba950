// Executor: a loaded model with the memory and the threads to run it: one place of full length for
// every slot. Owned by the engine thread, which is worker 0 of its team.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/planner.h"
#include "model/loader.h"
#include "model/sequences.h"
#include "tensor/stream.h"
#include "tensor/thread_team.h"

namespace sluice::engine {

class Executor {
 public:
  struct Params {
    int32_t n_slots = 1;
    int32_t n_context = 0;  // tokens of one sequence
    int32_t n_rows = 0;     // of one step
    int32_t n_threads = 1;
    Arithmetic arithmetic = Arithmetic::kFloat32;
  };
  // Takes the memory. kInvalidArgument: more context than the model has.
  static Result<std::unique_ptr<Executor>> Open(const Params& params, model::LoadedModel loaded);

  // Constant; any thread.
  const model::ModelInfo& info() const { return loaded_.model->info(); }

  // A new sequence takes this slot.
  void Clear(int32_t slot) { sequences_->Clear(slot); }

  // hop 6. Logits of the parts that draw, in their order: [.., n_vocab]. Valid until the next Run.
  // Slots, tokens and lengths were checked when their requests were taken.
  std::span<float> Run(const StepPlan& plan);

 private:
  Executor(const Params& params, model::LoadedModel loaded);

  model::LoadedModel loaded_;
  ThreadTeam team_;
  Stream stream_;
  std::optional<model::Sequences> sequences_;
  model::Sequences::Outputs outputs_;
  std::vector<model::Sequences::Part> parts_;  // scratch of Run
};

}  // namespace sluice::engine
