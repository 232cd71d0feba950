// Bounded queues between threads. Neither blocks: full is an answer, never a wait.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/check.h"

namespace sluice {

// One producer thread, one consumer thread. Moves its items; Boost's spsc_queue only copies them.
template <typename T>
class SpscRing {
 public:
  explicit SpscRing(uint32_t capacity) : slots_(capacity) { SLUICE_CHECK(capacity > 0); }
  SpscRing(const SpscRing&) = delete;

  // Producer. False, with `item` untouched, when full.
  bool TryPush(T& item) {
    uint64_t tail = tail_.load(std::memory_order_relaxed);
    if (tail - head_.load(std::memory_order_acquire) == slots_.size()) return false;
    slots_[tail % slots_.size()] = std::move(item);
    tail_.store(tail + 1, std::memory_order_release);
    return true;
  }

  // Producer. Free places; at least this many TryPush calls succeed.
  size_t free() const {
    return slots_.size() -
           (tail_.load(std::memory_order_relaxed) - head_.load(std::memory_order_acquire));
  }

  // Consumer.
  bool TryPop(T& into) {
    uint64_t head = head_.load(std::memory_order_relaxed);
    if (head == tail_.load(std::memory_order_acquire)) return false;
    into = std::move(slots_[head % slots_.size()]);
    head_.store(head + 1, std::memory_order_release);
    return true;
  }

  // Consumer.
  bool empty() const {
    return head_.load(std::memory_order_relaxed) == tail_.load(std::memory_order_acquire);
  }

 private:
  std::vector<T> slots_;
  alignas(64) std::atomic<uint64_t> head_{0};  // next to pop; written by the consumer
  alignas(64) std::atomic<uint64_t> tail_{0};  // next to push; written by the producer
};

// Any number of producer threads, one consumer thread. Thread-safe.
//
// A ring whose slots say whose turn it is: 2p when position p may be written, 2p + 1 when it may be
// read. A producer that stops halfway hides what others push behind it until it goes on; so the
// consumer is woken after each push, as a Bell does. Boost's lockfree::queue is not used: its free
// list reads a node that another producer may be writing.
template <typename T>
class MpscQueue {
 public:
  explicit MpscQueue(size_t capacity) : slots_(capacity) {
    SLUICE_CHECK(capacity > 0);
    for (size_t i = 0; i < capacity; ++i) slots_[i].turn.store(2 * i, std::memory_order_relaxed);
  }
  ~MpscQueue() {
    while (TryPop()) {
    }
  }
  MpscQueue(const MpscQueue&) = delete;

  // False, with `item` untouched, when full.
  bool TryPush(std::unique_ptr<T>& item) {
    uint64_t tail = tail_.load(std::memory_order_relaxed);
    while (true) {
      Slot& slot = slots_[tail % slots_.size()];
      const uint64_t turn = slot.turn.load(std::memory_order_acquire);
      if (turn < 2 * tail) return false;  // still holds an item of the round before
      if (turn > 2 * tail) {              // another producer was here
        tail = tail_.load(std::memory_order_relaxed);
      } else if (tail_.compare_exchange_weak(tail, tail + 1, std::memory_order_relaxed)) {
        slot.item = std::move(item);
        slot.turn.store(2 * tail + 1, std::memory_order_release);
        return true;
      }
    }
  }

  // Consumer. Null when empty.
  std::unique_ptr<T> TryPop() {
    const uint64_t head = head_.load(std::memory_order_relaxed);
    Slot& slot = slots_[head % slots_.size()];
    if (slot.turn.load(std::memory_order_acquire) != 2 * head + 1) return nullptr;
    std::unique_ptr<T> item = std::move(slot.item);
    head_.store(head + 1, std::memory_order_relaxed);
    slot.turn.store(2 * (head + slots_.size()), std::memory_order_release);
    return item;
  }

  // A snapshot; of the producers' pushes some may be half done.
  int64_t size() const {
    const uint64_t head = head_.load(std::memory_order_relaxed);  // first: it never passes the tail
    return static_cast<int64_t>(tail_.load(std::memory_order_relaxed) - head);
  }

 private:
  struct Slot {
    std::atomic<uint64_t> turn{0};
    std::unique_ptr<T> item;  // of whose turn it is
  };

  std::vector<Slot> slots_;
  alignas(64) std::atomic<uint64_t> head_{0};  // next to pop; written by the consumer
  alignas(64) std::atomic<uint64_t> tail_{0};  // next to claim; written by producers
};

}  // namespace sluice
