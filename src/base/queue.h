// Bounded queues between threads. Neither blocks: full is an answer, never a wait.

#pragma once

#include <atomic>
#include <boost/lockfree/queue.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
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
template <typename T>
class MpscQueue {
 public:
  explicit MpscQueue(size_t capacity) : queue_(capacity), capacity_(capacity) {}
  ~MpscQueue() {
    while (TryPop()) {
    }
  }
  MpscQueue(const MpscQueue&) = delete;

  // False, with `item` untouched, when full.
  bool TryPush(std::unique_ptr<T>& item) {
    if (n_.fetch_add(1, std::memory_order_relaxed) >= static_cast<int64_t>(capacity_)) {
      n_.fetch_sub(1, std::memory_order_relaxed);
      return false;
    }
    SLUICE_CHECK(
        queue_.push(item.get()));  // n_ bounds it; the node pool grows if another thread lags
    item.release();
    return true;
  }

  // Consumer. Null when empty.
  std::unique_ptr<T> TryPop() {
    T* item = nullptr;
    if (!queue_.pop(item)) return nullptr;
    n_.fetch_sub(1, std::memory_order_relaxed);
    return std::unique_ptr<T>(item);
  }

  int64_t size() const { return n_.load(std::memory_order_relaxed); }

 private:
  boost::lockfree::queue<T*> queue_;
  const size_t capacity_;
  std::atomic<int64_t> n_{0};
};

}  // namespace sluice
