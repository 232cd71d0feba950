// EventBell: a thread sleeps until another one rings or a time has come. Over eventfd.
//
// Wait by one thread, Ring by any. A ring while the owner is awake is remembered and costs no
// system call; rings before the owner wakes are one.

#pragma once

#include <atomic>
#include <cstdint>

#include "base/bell.h"
#include "env/clock.h"

namespace sluice {

class EventBell {
 public:
  EventBell();
  ~EventBell();
  EventBell(const EventBell&) = delete;

  Bell bell();

  // Returns when rung since the last Wait, or when clock.Now() >= until; now and then for no
  // reason.
  void Wait(Time until, const Clock& clock);

  void Ring();

 private:
  enum State : uint32_t { kAwake, kAsleep, kRung };

  const int fd_;
  std::atomic<uint32_t> state_{kAwake};
};

}  // namespace sluice
