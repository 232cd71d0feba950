// EventQueue: the events of one request on their way from the service thread to the consumer.
//
// Bounded: a client that does not read fills it, and the service then holds the sequence's unsent tokens (or does not
// advance it) until there is room. It never waits and never drops. One place is reserved for the terminal event, which
// therefore always fits.
//
// Push by the service thread; Pop, Drained and set_room_bell by the consumer's thread. Lives until the terminal event
// was popped; the service does not touch it after pushing that.

#pragma once

#include <atomic>

#include "base/bell.h"
#include "base/queue.h"
#include "base/ready_list.h"
#include "wire/event.h"

namespace sluice::wire {

// Events a consumer may be behind. 16 events at 50 tokens/s are a third of a second of lag.
inline constexpr uint32_t kQueuedEvents = 16;

class EventQueue {
 public:
  // Each push lists `node` in `ready`.
  EventQueue(ReadyList& ready, ReadyList::Node& node)
      : ready_(ready), node_(node), ring_(kQueuedEvents + 1) {}

  // Called inside TokenService::Submit, before any push: rung when a push was refused and there is room again.
  void set_room_bell(Bell bell) { room_bell_ = bell; }

  // Service thread. False, with `event` untouched, when full: the room bell will ring.
  bool TryPush(TokenEvent& event) {
    if (event.end == nullptr && !HasRoom()) return false;
    SLUICE_CHECK(ring_.TryPush(event));
    ready_.Add(node_);
    return true;
  }

  // Service thread. Whether an event that is not terminal fits. If not, the room bell will ring.
  bool HasRoom() {
    if (ring_.free() >= 2) return true;
    starved_.store(true, std::memory_order_seq_cst);
    // Drained() pops, then looks at starved_; we set starved_, then look again: one of the two sees the other.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return ring_.free() >= 2;
  }

  // Consumer thread.
  bool TryPop(TokenEvent& into) { return ring_.TryPop(into); }

  // Consumer thread, after popping what it can take now (not after the terminal event).
  void Drained() {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (starved_.load(std::memory_order_seq_cst) && starved_.exchange(false)) room_bell_.Ring();
  }

 private:
  ReadyList& ready_;
  ReadyList::Node& node_;
  SpscRing<TokenEvent> ring_;
  std::atomic<bool> starved_{false};  // a push was refused since the last Drained()
  Bell room_bell_;
};

}  // namespace sluice::wire
