#include "wire/timer_heap.h"

#include "base/check.h"

namespace sluice::wire {

TimerHeap::TimerHeap(int32_t n_seats) : place_(static_cast<size_t>(n_seats), kNowhere) {
  heap_.reserve(static_cast<size_t>(n_seats));
}

void TimerHeap::Set(int32_t seat, Time due) {
  SLUICE_CHECK(place_[static_cast<size_t>(seat)] == kNowhere);
  if (due == Time::Max()) return;
  heap_.emplace_back();
  SiftUp(heap_.size() - 1, {.due = due, .seat = seat});
}

void TimerHeap::Clear(int32_t seat) {
  int32_t place = place_[static_cast<size_t>(seat)];
  if (place == kNowhere) return;
  place_[static_cast<size_t>(seat)] = kNowhere;
  Entry last = heap_.back();
  heap_.pop_back();
  if (last.seat == seat) return;
  size_t at = static_cast<size_t>(place);
  // The last entry comes from another branch: it may belong above or below.
  if (at > 0 && last.due < heap_[(at - 1) / 2].due) {
    SiftUp(at, last);
  } else {
    SiftDown(at, last);
  }
}

void TimerHeap::Put(size_t at, Entry entry) {
  heap_[at] = entry;
  place_[static_cast<size_t>(entry.seat)] = static_cast<int32_t>(at);
}

void TimerHeap::SiftUp(size_t at, Entry entry) {
  while (at > 0) {
    size_t parent = (at - 1) / 2;
    if (heap_[parent].due <= entry.due) break;
    Put(at, heap_[parent]);
    at = parent;
  }
  Put(at, entry);
}

void TimerHeap::SiftDown(size_t at, Entry entry) {
  for (;;) {
    size_t child = 2 * at + 1;
    if (child >= heap_.size()) break;
    if (child + 1 < heap_.size() && heap_[child + 1].due < heap_[child].due) ++child;
    if (entry.due <= heap_[child].due) break;
    Put(at, heap_[child]);
    at = child;
  }
  Put(at, entry);
}

}  // namespace sluice::wire
