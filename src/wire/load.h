// LoadReport: how busy a TokenService is. A snapshot, maybe stale; for health, metrics, admission
// and placement, never for correctness. Plain data.

#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "base/time.h"

namespace sluice::wire {

// How far a model is on its way into memory.
struct LoadProgress {
  int64_t done_bytes = 0;
  int64_t total_bytes = 0;
  Duration elapsed;
  std::string file;  // being read; its name alone

  double percent() const {
    return total_bytes > 0
               ? 100.0 * static_cast<double>(done_bytes) / static_cast<double>(total_bytes)
               : 100.0;
  }
  double bytes_per_s() const {
    return elapsed.ns > 0 ? static_cast<double>(done_bytes) / elapsed.seconds() : 0;
  }
  // Of what is left, at the rate so far; nothing while there is none.
  std::optional<Duration> left() const {
    constexpr double kLongest_s = 1e9;
    if (done_bytes <= 0 || elapsed.ns <= 0) return std::nullopt;
    const double left_s = static_cast<double>(total_bytes - done_bytes) / bytes_per_s();
    return Duration{static_cast<int64_t>(std::clamp(left_s, 0.0, kLongest_s) * 1e9)};
  }
};

struct LoadReport {
  int64_t n_waiting = 0;      // accepted, not started
  int64_t n_running = 0;      // holding an engine slot
  int64_t n_running_max = 0;  // engine slots: of the waiting, those that find one free start next
  Time last_step;  // when Step() last began: a service that has work and does not step is wedged
  // Set from the start until requests are taken: they are refused until then.
  std::optional<LoadProgress> loading;
};

}  // namespace sluice::wire
