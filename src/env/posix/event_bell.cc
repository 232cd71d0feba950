#include "env/posix/event_bell.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/check.h"

namespace sluice {

EventBell::EventBell() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) { SLUICE_CHECK(fd_ >= 0); }

EventBell::~EventBell() { close(fd_); }

Bell EventBell::bell() {
  return {.ring = [](void* self) { static_cast<EventBell*>(self)->Ring(); }, .context = this};
}

void EventBell::Ring() {
  // The exchange publishes what the ringer wrote before; the owner's exchange in Wait sees it.
  if (state_.exchange(kRung, std::memory_order_acq_rel) != kAsleep) return;
  uint64_t one = 1;
  SLUICE_CHECK(write(fd_, &one, sizeof(one)) == sizeof(one));
}

void EventBell::Wait(Time until, const Clock& clock) {
  uint32_t awake = kAwake;
  if (state_.compare_exchange_strong(awake, kAsleep, std::memory_order_acq_rel)) {
    Duration left = until - clock.Now();
    timespec timeout = {.tv_sec = left.ns / 1'000'000'000, .tv_nsec = left.ns % 1'000'000'000};
    pollfd event = {.fd = fd_, .events = POLLIN, .revents = 0};
    if (left.ns > 0) {
      int n = ppoll(&event, 1, until == Time::Max() ? nullptr : &timeout, nullptr);
      SLUICE_CHECK(n >= 0 || errno == EINTR);
    }
    // A ringer that saw us asleep may write only after this: the next Wait then returns early,
    // which is allowed.
    uint64_t n_rings;
    if ((event.revents & POLLIN) != 0)
      SLUICE_CHECK(read(fd_, &n_rings, sizeof(n_rings)) == sizeof(n_rings));
  }
  state_.exchange(kAwake, std::memory_order_acq_rel);
}

}  // namespace sluice
