// RequestDesk: the front of a TokenService. It takes requests and cancels from any thread, keeps
// them in seats made at the start, and tells the owner who may begin, who may go on and who has
// ended. What a request does once it has begun is the service's own business.
//
// Submit, Cancel and Load may be called from any thread and never block. Everything else belongs to
// the owner, who calls BeginStep and EndStep around what one Step of the service does. No thread,
// no clock. Must outlive the consumers' use of the queues given to Submit.
//
// 1. Each accepted request ends in exactly one terminal event: at the latest on destruction.
// 2. A request whose queue is full is left alone until its consumer has made room. It still obeys
//    Cancel and its deadline.
// 3. At most n_running_max + n_waiting_max requests are held. Each that has begun has a slot of its
//    own until its end, and loses it at once with the end.

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
#include "base/status.h"
#include "wire/event_queue.h"
#include "wire/load.h"
#include "wire/request.h"
#include "wire/timer_heap.h"

namespace sluice::wire {

class RequestDesk {
 public:
  struct Params {
    int32_t n_running_max = 1;  // slots
    int32_t n_waiting_max = 0;  // requests beyond those, which wait for one
    Bell bell;                  // rung by any thread when a step has something new to see
  };
  class Seat;

  explicit RequestDesk(const Params& params);
  // While no other thread calls in. Ends what is left like CancelAll.
  ~RequestDesk();
  RequestDesk(const RequestDesk&) = delete;

  // ids are unique, not 0 and below 2^63; n_max is at least 1, or 0 with scores of the prompt.
  // kOverloaded when all seats are taken or the desk is closed.
  Status Submit(GenerateRequest request, EventQueue& out);
  void Cancel(RequestId id);
  LoadReport Load() const;

  // Takes what is new, ends what was cancelled or is late, wakes what has slept enough.
  void BeginStep(Time now);
  // When the owner wants to be called next: `now` itself when there is more to do, at most
  // kHeartbeat later, so that LoadReport::last_step shows a living loop.
  Time EndStep(Time now);

  // The one to begin next, in the order of arrival; null: nobody waits or no slot is free.
  Seat* FirstInLine();
  // Gives it a slot; it is ready.
  void Begin(Seat& seat);
  // Those who may go on, in the order in which they became ready. The next one must be looked up
  // before this one is paused, put to sleep or ended.
  const std::list<Seat*>& ready() const { return lists_[static_cast<size_t>(Phase::kReady)]; }

  // True: no further event fits, and the seat is not ready until its consumer has made room.
  bool PauseIfFull(Seat& seat);
  // How much of its prompt was found in a cache; told with its first event and at its end.
  void NoteCached(Seat& seat, int32_t n_tokens);
  // How much of its prompt need not run any more.
  void NotePrompt(Seat& seat, int32_t n_tokens);
  // After PauseIfFull said no: one event that is not terminal. first_index is set here.
  void Send(Seat& seat, TokenEvent event);
  // Not ready before `due`; Time::Max(): before its end.
  void Sleep(Seat& seat, Time due);
  // Ready at once, if it sleeps.
  void Wake(Seat& seat);
  // Frees seat and slot, then sends `event` as the terminal one, always.
  void End(Seat& seat, TokenEvent event, FinishReason finish);
  void Fail(Seat& seat, Status status);
  // Everybody who has begun.
  void FailBegun(const Status& status);

  // Ends every request with kOverloaded and refuses new ones, for good. A Submit that was under way
  // in another thread is accepted and ended by a later BeginStep: the owner steps until idle().
  void CancelAll();
  bool idle() const { return n_held_.load(std::memory_order_acquire) == 0; }

  static constexpr Duration kHeartbeat = Duration::Seconds(1);

 private:
  // kSleeping waits for time, kPaused for room in its queue.
  enum class Phase : uint8_t { kFree, kWaiting, kReady, kSleeping, kPaused };
  static constexpr size_t kNumPhases = 5;

  static bool IsLegalMove(Phase from, Phase to);
  static bool HoldsSlot(Phase phase) { return phase > Phase::kWaiting; }
  std::list<Seat*>& Of(Phase phase) { return lists_[static_cast<size_t>(phase)]; }

  // The only writer of a seat's phase, list, slot, timer and of what is counted by phase.
  void Move(Seat& seat, Phase to);
  void TakeNews();
  void Heed(Seat& seat);
  void WakeDue(Time now);
  void EndAs(Seat& seat, TokenEvent event, FinishReason finish, Status status);
  size_t ReserveSeat();
  void ReleaseSeat(size_t seat_idx);

  // Constant after construction.
  const int32_t n_running_max_;
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
  std::vector<int32_t> free_slots_;
  std::vector<Seat*> taken_;  // scratch of TakeNews
};

// One request at the desk. Between release of its word and the next reservation a seat belongs to
// nobody; then to the Submit that reserved it; from publication on to the owner. The node and what
// is constant: to everybody.
class RequestDesk::Seat : ReadyList::Node {
 public:
  Seat(ReadyList& news, int32_t seat_idx) : news_(news), seat_idx_(seat_idx) {}

  const GenerateRequest& request() const { return request_; }
  // What it has cost so far; by the owner.
  Work& work() { return work_; }
  int32_t n_sent() const { return n_sent_; }  // tokens
  // Scores of the prompt that were sent, and those that are still to be.
  int32_t n_scored() const { return n_scored_; }
  int32_t n_unscored() const {
    const auto n_prompt = static_cast<int32_t>(request_.prompt->size());
    return request_.sampling.n_prompt_logprobs ? n_prompt - 1 - n_scored_ : 0;
  }
  bool is_ready() const { return phase_ == Phase::kReady; }
  // Its consumer has left no room for an event.
  bool is_paused() const { return phase_ == Phase::kPaused; }
  // Below n_running_max; no other request has it at the same time. -1 before it has begun.
  int32_t slot() const { return slot_; }

 private:
  friend RequestDesk;

  static void Ring(void* seat) {
    Seat& self = *static_cast<Seat*>(seat);
    self.news_.Add(self);
  }

  // Constant after construction.
  ReadyList& news_;
  const int32_t seat_idx_;
  std::list<Seat*>::iterator link_;  // in the list of its phase

  GenerateRequest request_;
  EventQueue* out_ = nullptr;
  int32_t n_sent_ = 0;
  int32_t n_scored_ = 0;
  int32_t n_cached_ = 0;
  Work work_;
  int32_t slot_ = -1;
  Time due_;  // kSleeping: of its end
  Phase phase_ = Phase::kFree;
};

}  // namespace sluice::wire
