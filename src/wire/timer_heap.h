// TimerHeap: which of a fixed set of seats is due first. A binary heap that knows where each seat
// is, so that a cancelled or paused one leaves at once and long deadlines leave nothing behind.
// Allocates nothing after construction. Thread-compatible.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/time.h"

namespace sluice::wire {

class TimerHeap {
 public:
  // Seats are 0 ... n_seats - 1.
  explicit TimerHeap(int32_t n_seats);

  // The seat must not be set. Time::Max() means never and is not kept.
  void Set(int32_t seat, Time due);
  // Whether it was set or not.
  void Clear(int32_t seat);

  // Time::Max() when empty.
  Time next() const { return heap_.empty() ? Time::Max() : heap_.front().due; }
  // A seat that is due at next(). Must not be empty.
  int32_t next_seat() const { return heap_.front().seat; }

 private:
  static constexpr int32_t kNowhere = -1;
  struct Entry {
    Time due;
    int32_t seat;
  };

  void Put(size_t at, Entry entry);
  void SiftUp(size_t at, Entry entry);
  void SiftDown(size_t at, Entry entry);

  std::vector<Entry> heap_;
  std::vector<int32_t> place_;  // of each seat in heap_, or kNowhere
};

}  // namespace sluice::wire
