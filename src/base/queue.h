// A bounded queue between two threads. It never blocks: full is an answer, not a wait.

#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/check.h"

namespace sluice {

// One producer thread, one consumer thread. Moves its items; Boost's spsc_queue only copies them.
template <typename T>
class SpscRing {
 public:
  // A power of two: an index is a mask away from its slot.
  explicit SpscRing(uint32_t capacity) : slots_(capacity) {
    SLUICE_CHECK(std::has_single_bit(capacity));
  }
  SpscRing(const SpscRing&) = delete;

  // Producer. False, with `item` untouched, when full.
  bool TryPush(T& item) {
    uint64_t tail = tail_.load(std::memory_order_relaxed);
    if (tail - head_.load(std::memory_order_acquire) == slots_.size()) return false;
    slots_[tail & (slots_.size() - 1)] = std::move(item);
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
    into = std::move(slots_[head & (slots_.size() - 1)]);
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

}  // namespace sluice
