// EventQueue: the events of one request on their way from the service thread to the consumer.
//
// Bounded: a client that does not read fills it, and the service then holds the sequence's unsent
// tokens (or does not advance it) until there is room. It never waits and never drops.
//
// TryPush, HasRoom and NotePrompt by the service thread; TryPop, Drained, prompt and set_room_bell
// by the consumer's.
//
// 1. One place is reserved for the terminal event, which therefore always fits.
// 2. Once the terminal event can be popped the service touches neither the queue nor the node. So
//    the consumer may destroy both after popping it; the node not before it is off the ready list
//    (Node::listed), where an earlier listing may still have it.

#pragma once

#include <atomic>

#include "base/bell.h"
#include "base/check.h"
#include "base/queue.h"
#include "base/ready_list.h"
#include "wire/event.h"

namespace sluice::wire {

// Events a consumer may be behind; with the terminal one's place a power of two. 15 events at
// 50 tokens/s are a third of a second of lag.
inline constexpr uint32_t kQueuedEvents = 15;

class EventQueue {
 public:
  // When the consumer is told: at each event, or at the first token, for the time it took, and then
  // only when half the places are taken (for answers that nobody sees before their end; most
  // wake-ups are spared); or at each event and each NotePrompt.
  enum class Tell : uint8_t { kEachEvent, kHalfFull, kPromptToo };

  // Telling lists `node` in `ready`.
  EventQueue(ReadyList& ready, ReadyList::Node& node, Tell tell = Tell::kEachEvent)
      : ready_(ready), node_(node), tell_(tell), ring_(kQueuedEvents + 1) {}
  EventQueue(const EventQueue&) = delete;

  // Called inside TokenService::Submit, before any push: rung by Drained when a push was refused
  // and half of the places are free again. What it rings must outlive the consumer's use of this
  // queue.
  void set_room_bell(Bell bell) { room_bell_ = bell; }

  // Service thread. False, with `event` untouched, when full: the room bell will ring.
  bool TryPush(TokenEvent& event) {
    if (event.end != nullptr) {
      PushTerminal(event);
      return true;
    }
    if (!HasRoom()) return false;
    const bool is_first = event.first_index == 0 && !event.tokens.empty();
    SLUICE_CHECK(ring_.TryPush(event));
    if (is_first || tell_ != Tell::kHalfFull || ring_.free() <= kQueuedEvents / 2) {
      ready_.Add(node_);
    }
    return true;
  }

  // Service thread. Whether an event that is not terminal fits. If not, the room bell will ring.
  bool HasRoom() {
    if (ring_.free() >= 2) return true;
    starved_.store(true, std::memory_order_seq_cst);
    // Drained() pops, then looks at starved_; we set starved_, then look again: one of the two sees
    // the other.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (ring_.free() < 2) return false;
    starved_.store(false, std::memory_order_relaxed);
    return true;
  }

  // Service thread, before the terminal event. What the consumer did not look at is overwritten, so
  // this needs no room.
  void NotePrompt(PromptProgress prompt) {
    prompt_.store(prompt, std::memory_order_relaxed);
    if (tell_ == Tell::kPromptToo) ready_.Add(node_);
  }

  // Consumer thread.
  PromptProgress prompt() const { return prompt_.load(std::memory_order_relaxed); }

  // Consumer thread.
  bool TryPop(TokenEvent& into) {
    if (ring_.TryPop(into)) {
      if (into.end != nullptr) ending_.store(false, std::memory_order_relaxed);
      return true;
    }
    // The listing of the terminal event has outrun the event: come again.
    if (ending_.load(std::memory_order_acquire)) ready_.Add(node_);
    return false;
  }

  // Consumer thread, after popping what it can take now (not after the terminal event). Rings only
  // when half the places are free: a consumer that takes one event at a time would otherwise wake
  // the service for each.
  void Drained() {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (!starved_.load(std::memory_order_seq_cst) || ring_.free() <= kQueuedEvents / 2) return;
    if (starved_.exchange(false)) room_bell_.Ring();
  }

 private:
  // The push is the last touch: the consumer, running for an earlier event, may pop this one at
  // once and destroy node and queue. The list outlives both, and its bell wakes somebody, so it is
  // rung when the event is there.
  void PushTerminal(TokenEvent& event) {
    ReadyList& ready = ready_;
    ending_.store(true, std::memory_order_release);
    const bool must_ring = ready.Link(node_);
    SLUICE_CHECK(ring_.TryPush(event));
    if (must_ring) ready.Ring();
  }

  ReadyList& ready_;
  ReadyList::Node& node_;
  const Tell tell_;
  SpscRing<TokenEvent> ring_;
  std::atomic<bool> starved_{false};  // a push was refused since the last Drained()
  std::atomic<bool> ending_{false};   // the terminal event is about to be pushed
  std::atomic<PromptProgress> prompt_{PromptProgress{}};
  static_assert(std::atomic<PromptProgress>::is_always_lock_free);
  Bell room_bell_;
};

}  // namespace sluice::wire
