// Engine: a TokenService that runs a model. First it loads one, then it generates for many requests
// at once: a step takes one row of every sequence that has drawn a token and pieces of prompts
// beside them. Prefixes that were computed before are not computed again.
//
// Submit, Cancel and Load may be called from any thread and never block. Everything else belongs to
// the engine thread, which calls Step when the time it answered has come and when the bell rings.
// Passive: it sleeps nowhere, and no clock but Step's time decides anything. Must outlive the
// consumers' use of the queues given to Submit.
//
// 1. What the desk promises: exactly one terminal event each, a full queue stops its own request
//    only, bounded.
// 2. The tokens of a request depend on prompt, parameters and seed alone, not on what else runs,
//    how its prompt was cut or how many threads compute.
//    With exact replay; with bounded replay they may depend on which prefix was found, too.
// 3. No step is in flight between two Steps: what a request held is free in the Step that sees its
//    end.
// 4. A request that is refused or fails touches no other.
// 5. A fault of the engine itself ends those that have begun with an error. Nothing computed before
//    it is used again; those that wait are served behind it.
//
// A request with a script gets the tokens of that (spec script-format.md); everything else about it
// is as real as for the others.

#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/bell.h"
#include "engine/batch.h"
#include "engine/executor.h"
#include "engine/replay.h"
#include "engine/sampling/logits.h"
#include "engine/sampling/sampler.h"
#include "env/clock.h"
#include "kv/block_store.h"
#include "model/loader.h"
#include "wire/request_desk.h"
#include "wire/token_service.h"

namespace sluice::engine {

class Engine final : public wire::TokenService {
 public:
  struct Params {
    int32_t max_running = 1;    // sequences that run at the same time
    int32_t max_waiting = 0;    // requests that wait for a slot
    int32_t n_context = 0;      // tokens of one sequence, prompt and output
    int32_t n_prompt_rows = 0;  // of one step, besides one for each sequence that decodes
    int32_t n_blocks = 0;       // of KV memory; 0: enough for max_running of full length
    bool prefix_cache = true;
    int32_t n_windows = 0;  // sequences whose windows are kept, so that nothing runs again behind a
                            // hit at their end; of no use to a model without windows
    Prefill prefill = Prefill::kCompact;
    Replay replay = Replay::kBounded;
    int32_t n_threads = 1;
    Arithmetic arithmetic = Arithmetic::kFloat32;
    IsaChoice isas;               // of kernels
    std::vector<TokenId> banned;  // of the model's tokens, never drawn; its end token always may be
    uint64_t seed = 0;            // of the seeds of requests that bring none; nobody should know it
    std::array<std::byte, 32> cache_secret{};  // of the names of prefixes; nobody should know it
    // Where blocks are kept beyond KV memory, by the engine thread; it rings `bell`, and outlives
    // the engine. Null: nowhere.
    kv::BlockStore* store = nullptr;
    const Clock* clock = nullptr;    // outlives the engine; null: nobody asks how long steps take
    bool checks_invariants = false;  // after every step: for tests
    Bell bell;                       // rung by any thread when Step has something new to see
  };
  // Destroyed while no other thread calls in; ends what is left like CancelAll.
  Engine(const Params& params, model::Loader loader);
  // Without loading anything.
  Engine(const Params& params, model::LoadedModel loaded);

  // kOverloaded while the model is not loaded, with the time that loading will still take;
  // kContextLength, kInvalidArgument for what the model cannot run. ids and n_max: see RequestDesk.
  Status Submit(wire::GenerateRequest request, wire::EventQueue& out) override;
  Status Check(const wire::GenerateRequest& request) const override;
  void Cancel(RequestId id) override { desk_.Cancel(id); }
  wire::LoadReport Load() const override;

  // Reads a piece of the model, or does one step of the batch. Returns when it wants to be called
  // next; see RequestDesk::EndStep.
  Time Step(Time now);

  // Why the model could not be loaded; then every request is refused, for good.
  const Status& failure() const { return failure_; }

  // By the engine thread; nothing before the model is loaded.
  const Batch* batch() const { return batch_ ? &*batch_ : nullptr; }

  // See RequestDesk. Calls of the store are ended, too, and what is open of them is not idle.
  void CancelAll();
  bool idle() const { return desk_.idle() && (!batch_ || batch_->n_open_calls() == 0); }

 private:
  using Seat = wire::RequestDesk::Seat;
  enum class State : uint8_t { kLoading, kServing, kFailed };

  explicit Engine(const Params& params);
  void LoadPiece(Time now);
  void Open(model::LoadedModel loaded);
  void FailLoading(Status status);
  Status RefuseUnloaded() const;

  void OpenBatch();
  // The time by the clock that measures; `now` if there is none.
  Time Measured(Time now) const { return params_.clock != nullptr ? params_.clock->Now() : now; }
  void Run(const StepPlan& plan, Time begin, Time now);
  void Admit(Time now);
  void Commit(const Batch::Drawing& drawing, Time now);
  void Play(Sequence& sequence, wire::TokenEvent scored, Time now);
  void Strike(Seat& seat);
  std::vector<wire::TokenLogprob> Score(const Batch::Drawing& drawing) const;
  void Recover();
  std::optional<TokenId> Draw(const Batch::Drawing& drawing);

  // Constant after construction.
  const Params params_;

  // Self-synchronised. Before kServing nobody but the engine thread looks at executor_; from then
  // on what other threads read of it is constant.
  wire::RequestDesk desk_;
  std::atomic<State> state_{State::kLoading};
  std::atomic<int64_t> loaded_bytes_{0};
  std::atomic<int64_t> total_bytes_{0};
  std::atomic<int64_t> loading_ns_{0};
  std::atomic<const std::string*> file_{nullptr};  // being read; one of files_

  // Owned by the engine thread.
  std::optional<model::Loader> loader_;
  std::optional<ThreadTeam> loading_team_;  // while there is a loader
  std::optional<Time> loading_since_;
  std::deque<std::string> files_;  // names stay where they are
  Status failure_;
  int32_t n_windows_ = 0;
  std::unique_ptr<Executor> executor_;
  kv::NullStore null_store_;
  std::optional<Batch> batch_;  // from kServing on
  Status fault_;                // not OK: of the step that runs
  int32_t n_faults_ = 0;
  std::vector<TokenId> banned_;
  Sampler sampler_;
  std::vector<float> adjusted_;  // scratch of Draw
};

}  // namespace sluice::engine
