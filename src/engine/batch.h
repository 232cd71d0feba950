// Batch: the sequences that have begun, the KV memory they share, and the step that moves them.
// Owned by the engine thread; desk and executor outlive it.
//
// 1. A step is planned, gets its blocks, runs and is taken over; nothing is in flight between two
//    calls of Run.
// 2. A sequence that ended or was cancelled holds nothing after ReleaseEnded.
// 3. Sequences are ranked by class, and by age within a class. The first one always moves on:
//    blocks that it lacks are taken from the last ones, which come back later behind what the
//    prefix index still has of them.
// 4. Who has been passed over for kRankPatience, waiting or in its prompt, ranks with the highest
//    class from then on, and is older than whoever comes: so each one moves on within a bounded
//    time. Nobody waits for the rows of a class below.
// 5. What several sequences need is computed, or loaded from the store, once: the others wait for
//    it.
// 6. A sequence whose prompt is scored computes all of it itself, each row through every layer, and
//    nobody else sees its rows: they need not be those that the others' mode would compute.
// 7. Nobody but the sequence that asked waits for the store, and that one not for long.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/time.h"
#include "base/trace.h"
#include "engine/executor.h"
#include "engine/planner.h"
#include "engine/replay.h"
#include "engine/sequence.h"
#include "engine/transfers.h"
#include "kv/block_store.h"
#include "kv/cache.h"
#include "kv/window_cache.h"
#include "wire/request_desk.h"

namespace sluice::engine {

inline constexpr Duration kRankPatience = Duration::Seconds(10);

class Batch {
 public:
  struct Params {
    int32_t n_slots = 1;
    int32_t n_prompt_rows = 0;  // of one step
    ReplayRule rule;
    Arithmetic arithmetic = Arithmetic::kFloat32;
    int32_t n_faults = 0;  // of the engine so far: what was stored before them is not found again
    kv::Cache::Params cache;
    int32_t n_windows = 0;  // sequences whose windows are kept; slots behind the n_slots
    std::array<std::byte, 32> secret{};  // of the keys of prefixes
  };
  // The store outlives it, too.
  Batch(const Params& params, wire::RequestDesk& desk, Executor& executor, kv::BlockStore& store);
  ~Batch();

  // The sequence of a seat that has just begun. The rest of its fields are the caller's.
  Sequence& Begin(wire::RequestDesk::Seat& seat, Time now);
  void ReleaseEnded();

  // Who runs next; what the store has brought is taken first. Empty: nobody can, and who would is
  // put to sleep for a moment.
  StepPlan Plan(Time now);

  // What a step says of one sequence; valid until the next Run.
  struct Drawing {
    Sequence& sequence;
    // Of the next tokens of its prompt that are to be scored: [n, n_vocab].
    std::span<const float> scores;
    std::span<float> logits;  // that its next token is drawn from; empty: there is more to run
    bool is_shared = false;   // another drawing looks at these logits, too
  };
  std::span<const Drawing> Run(const StepPlan& plan, Time now);
  // For the traces of those that had rows in it.
  void NoteTimes(const StepPlan& plan, const RequestTrace& spent);

  // Offers to the store what has been filled.
  void Save() { transfers_.Save(); }
  // Ends what is open of it, and offers nothing more.
  void StopSaving() { transfers_.StopSaving(); }
  // Calls of the store that are not completed. While there are some, the memory must stay.
  int32_t n_open_calls() const { return transfers_.n_open(); }

  // What happened so far, in tokens and sequences.
  struct Counts {
    int64_t n_hit = 0;       // tokens of prompts that were found
    int64_t n_asked = 0;     // tokens of prompts
    int64_t n_loaded = 0;    // of n_hit, from the store
    int64_t n_replayed = 0;  // rows that ran although their shared rows were there
    int64_t n_windows = 0;   // sequences that went on with kept windows
    int64_t n_forked = 0;    // sequences that went on as a copy of another
    int64_t n_preempted = 0;
  };
  const Counts& counts() const { return counts_; }

  // What is wrong with the books; empty: nothing is. For tests.
  std::string CheckInvariants() const;

 private:
  Sequence& At(int32_t slot) { return sequences_[static_cast<size_t>(slot)]; }
  const Sequence& At(int32_t slot) const { return sequences_[static_cast<size_t>(slot)]; }
  bool RanksBefore(int32_t slot, int32_t other) const;
  void RaiseLongWaiting(Time now);
  void StartWaiting(Time now);
  ReplayRule RuleFor(const Sequence& sequence) const;
  // It is awake and its client reads; pauses it if the client does not.
  bool MayRun(const Sequence& sequence);
  bool IsAwaiting(const Sequence& sequence) const;
  bool FindAwaited(Sequence& sequence);
  // Whether it has started, or begun to fetch; if not, there is no room for it.
  bool TryStart(Sequence& sequence, int64_t n_spoken_for, Time now);
  // Held by classes below this one; some of them for others, too, where prefixes are shared.
  int64_t BlocksBelow(wire::RequestClass rank) const;
  int32_t LastWithBlocks() const;
  void NoteHit(Sequence& sequence, int32_t n_told);
  void GiveWay(int32_t slot, Time now);
  bool AsksStore(Sequence& sequence, const kv::Cache::Start& start, Time now);
  bool PollStore(Time now);
  void AbandonFetchesBehind(int32_t slot);
  void Rest(Time now);
  StepPlan PlanRunning();
  void FindWindows(Sequence& sequence);
  void KeepWindows(const Sequence& sequence, int32_t slot);
  void Preempt(int32_t slot, Time now);
  void SetGauges() const;
  void Advance(const StepPlan::Part& part);
  void ForkFrom(const Sequence& leader, std::span<float> logits, Time now);

  // Constant after construction.
  const Params params_;
  wire::RequestDesk& desk_;
  Executor& executor_;
  const std::string mode_;  // in the names of prefixes

  kv::Cache cache_;
  kv::WindowCache windows_;
  std::vector<Sequence> sequences_;  // by slot
  Transfers transfers_;              // between cache and memory, and the store
  std::vector<int32_t> order_;       // slots of those that have begun, by rank
  uint64_t n_begun_ = 0;
  std::vector<PlanItem> items_;  // scratch
  std::vector<Executor::Part> parts_;
  std::vector<Drawing> drawings_;
  Counts counts_;
};

}  // namespace sluice::engine
