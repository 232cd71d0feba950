// Executor: a loaded model with the memory and the threads to run it. Owned by the engine thread,
// which is worker 0 of its team.

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "env/clock.h"
#include "kv/cache.h"
#include "kv/memory.h"
#include "model/loader.h"
#include "model/model.h"
#include "tensor/buffer.h"
#include "tensor/stream.h"
#include "tensor/thread_team.h"

namespace sluice::engine {

class Executor {
 public:
  struct Params {
    int32_t n_slots = 1;    // of sequences that run
    int32_t n_windows = 0;  // slots behind those, for windows that are kept
    int32_t n_blocks = 1;
    int32_t n_context = 0;  // tokens of one sequence
    int32_t n_rows = 0;     // of one step
    int32_t n_scores = 0;   // of them with logits, besides one for each slot
    int32_t n_threads = 1;
    const Clock* clock = nullptr;  // that measures the model; null: nobody wants to know
    Arithmetic arithmetic = Arithmetic::kFloat32;
    IsaChoice isas;
  };
  // Takes the memory. kInvalidArgument: more context than the model has, or fewer blocks than one
  // sequence may need.
  static Result<std::unique_ptr<Executor>> Open(const Params& params, model::LoadedModel loaded);

  // Constant; any thread.
  const model::ModelInfo& info() const { return loaded_.model->info(); }
  int32_t n_context() const { return limits_.n_context; }
  std::string_view weights_revision() const { return loaded_.weights_revision; }
  const kv::Memory& memory() const { return memory_; }

  // Rows of one sequence. Spans are valid until Run returns.
  struct Part {
    SlotId slot;
    std::span<const BlockId> blocks;  // for every position up to the last row
    std::span<const TokenId> tokens;  // of the sequence, up to the last row
    int32_t begin = 0;                // position of the first row
    int32_t n_hit = 0;                // rows before this one write nothing that is shared
    int32_t decoder_begin = 0;        // rows before this one stop in the middle
    int32_t window_begin = 0;         // no window row before this one is read
    int32_t n_logits = 0;             // of the last rows
  };
  // What the model took in the last Run.
  Duration forward_time() const { return forward_time_; }
  // hop 6. Logits of the parts, in their order: [sum of n_logits, n_vocab]. Valid until the next
  // Run.
  std::span<float> Run(std::span<const Part> parts);

  void CopyRows(const kv::Cache::Copy& copy);
  void CopySlot(SlotId from, SlotId to) { memory_.CopySlot(from, to); }

 private:
  Executor(const Params& params, model::LoadedModel loaded);
  void AddRows(const Part& part);

  model::LoadedModel loaded_;
  ThreadTeam team_;
  Stream stream_;
  const model::BatchLimits limits_;
  kv::Memory memory_;
  Buffer scratch_;
  std::vector<float> logits_;
  const Clock* const clock_;
  Duration forward_time_;
  // Of the step being built.
  std::vector<model::Row> rows_;
  std::vector<model::SeqView> views_;
};

}  // namespace sluice::engine
