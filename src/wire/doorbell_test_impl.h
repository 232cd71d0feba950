// Doorbell: lets a thread of a test sleep until another one rings. Rings that come before the wait
// are one. Thread-safe, one sleeper.

#pragma once

#include <atomic>

#include "base/bell.h"

namespace sluice::wire {

class Doorbell {
 public:
  Bell bell() {
    return {.ring = [](void* self) { static_cast<Doorbell*>(self)->Ring(); }, .context = this};
  }
  void Ring() {
    rung_.store(1);
    rung_.notify_one();
  }
  void Wait() {
    rung_.wait(0);
    rung_.exchange(0);  // reads the latest ring, so what it announced is seen
  }

 private:
  std::atomic<int> rung_{0};
};

}  // namespace sluice::wire
