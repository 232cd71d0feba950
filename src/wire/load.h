// LoadReport: how busy a TokenService is. A snapshot, maybe stale; for health, metrics, admission
// and placement, never for correctness. Plain data.

#pragma once

#include <cstdint>

#include "base/time.h"

namespace sluice::wire {

struct LoadReport {
  int64_t n_waiting = 0;      // accepted, not started
  int64_t n_running = 0;      // holding an engine slot
  int64_t n_running_max = 0;  // engine slots: of the waiting, those that find one free start next
  Time last_step;  // when Step() last ran: a service that has work and does not step is wedged
};

}  // namespace sluice::wire
