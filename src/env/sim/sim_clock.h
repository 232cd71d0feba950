// SimClock: time that stands still until somebody moves it. For tests and the simulator.
// Thread-safe.

#pragma once

#include <atomic>

#include "base/check.h"
#include "env/clock.h"

namespace sluice {

class SimClock : public Clock {
 public:
  explicit SimClock(Time now = {}, WallTime wall = {})
      : now_(now.ns), wall_minus_now_(wall.ns - now.ns) {}

  Time Now() const override { return {now_.load(std::memory_order_acquire)}; }
  WallTime Wall() const override { return {Now().ns + wall_minus_now_}; }

  void Advance(Duration d) {
    SLUICE_CHECK(d.ns >= 0);
    now_.fetch_add(d.ns, std::memory_order_acq_rel);
  }
  void AdvanceTo(Time t) { Advance(t - Now()); }

 private:
  std::atomic<int64_t> now_;
  const int64_t wall_minus_now_;
};

}  // namespace sluice
