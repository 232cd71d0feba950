// ScriptedService: a TokenService that plays the script each request carries (spec
// script-format.md). It stands where an engine stands: the same life of a sequence, the same
// events, the same back-pressure, and every fault an engine can have, injected on demand.
//
// Submit, Cancel and Load may be called from any thread and never block. Everything else belongs to
// the owner, who calls Step when the time it answered has come and when the bell rings. Passive: it
// has no thread and no clock. Must outlive the consumers' use of the queues given to Submit.
//
// 1. Each accepted request ends in exactly one terminal event: at the latest on destruction.
// 2. A Step is one round, like one step of an engine: every sequence that is due emits one event,
//    in the order in which they became due. So a Step is short, and cancels are never far away.
// 3. A sequence whose queue is full is left alone until its consumer has made room. It still obeys
//    Cancel and its deadline, and costs the others nothing.
// 4. At most max_running + max_waiting requests are held, in seats made at the start.

#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "base/bell.h"
#include "base/ready_list.h"
#include "wire/timer_heap.h"
#include "wire/token_service.h"

namespace sluice::wire {

class ScriptedService final : public TokenService {
 public:
  struct Params {
    int32_t max_running = 256;   // engine slots, >= 1
    int32_t max_waiting = 1024;  // requests that wait for one
    Bell bell;                   // rung by any thread when Step has something new to see
  };
  explicit ScriptedService(const Params& params);
  // While no other thread calls in. Ends what is left like CancelAll.
  ~ScriptedService() override;
  ScriptedService(const ScriptedService&) = delete;

  // ids are unique, not 0 and below 2^63; n_max and the script's n_per_event are at least 1.
  Status Submit(GenerateRequest request, EventQueue& out) override;
  void Cancel(RequestId id) override;
  LoadReport Load() const override;

  // Does what is due. Returns when it wants to be called next, at most kHeartbeat after `now`, so
  // that LoadReport::last_step shows a living loop; `now` itself when there is more to do.
  Time Step(Time now);

  // Ends every request with kOverloaded and refuses new ones, for good. A Submit that was under way
  // in another thread is accepted and ended by a later Step: the owner steps until idle().
  void CancelAll();
  bool idle() const { return n_held_.load(std::memory_order_acquire) == 0; }

  static constexpr Duration kHeartbeat = Duration::Seconds(1);

 private:
  // kSleeping waits for time, kPaused for room in its queue, kHung for the end.
  enum class Phase : uint8_t { kFree, kWaiting, kReady, kSleeping, kPaused, kHung };
  static constexpr size_t kNumPhases = 6;
  struct Seat;

  static bool IsLegalMove(Phase from, Phase to);
  static bool HoldsSlot(Phase phase) { return phase > Phase::kWaiting; }
  std::list<Seat*>& Of(Phase phase) { return lists_[static_cast<size_t>(phase)]; }

  // The only writer of a seat's phase, list, timer and of what is counted by phase.
  void Move(Seat& seat, Phase to);
  void TakeNews();
  void Heed(Seat& seat);
  void WakeDue(Time now);
  void Admit(Time now);
  void Advance(Seat& seat, Time now);
  void Strike(Seat& seat);
  // Frees the seat, then sends `event` as the terminal one. `status` is OK unless `finish` is
  // kError.
  void End(Seat& seat, TokenEvent event, FinishReason finish, Status status);
  void EndWith(Seat& seat, ErrorCode code, const char* message);
  size_t ReserveSeat();
  void ReleaseSeat(size_t seat_idx);

  // Constant after construction.
  const int32_t max_running_;
  std::vector<std::unique_ptr<Seat>> seats_;

  // Self-synchronised. words_[i] says who has seat i: nobody, a Submit that is filling it, or a
  // request by its id, with a bit once it is cancelled. Ids do not return, so a late Cancel cannot
  // hit the next one in the seat.
  std::vector<std::atomic<uint64_t>> words_;
  ReadyList news_;  // seats with a new request, a cancel or room in their queue
  std::atomic<int64_t> n_held_{0};
  std::atomic<int64_t> n_running_{0};  // written by the owner
  std::atomic<int64_t> last_step_ns_{0};
  std::atomic<uint64_t> next_seat_{0};  // where the search for a free one begins
  std::atomic<bool> closed_{false};

  // Owned by the owner's thread.
  std::array<std::list<Seat*>, kNumPhases> lists_;
  TimerHeap timers_;
  std::vector<Seat*> taken_;  // scratch of TakeNews
};

}  // namespace sluice::wire
