// Time and Duration: int64 nanoseconds, so that every unit conversion is spelled out. Plain values.
// Time counts from an arbitrary start (Clock::Now); WallTime from the Unix epoch, for expiry and
// logs only.

#pragma once

#include <compare>
#include <cstdint>

namespace sluice {

struct Duration {
  int64_t ns = 0;

  static constexpr Duration Nanos(int64_t n) { return {n}; }
  static constexpr Duration Micros(int64_t n) { return {n * 1'000}; }
  static constexpr Duration Millis(int64_t n) { return {n * 1'000'000}; }
  static constexpr Duration Seconds(int64_t n) { return {n * 1'000'000'000}; }

  constexpr double seconds() const { return static_cast<double>(ns) * 1e-9; }
  constexpr double millis() const { return static_cast<double>(ns) * 1e-6; }

  friend constexpr auto operator<=>(Duration, Duration) = default;
  friend constexpr Duration operator+(Duration a, Duration b) { return {a.ns + b.ns}; }
  friend constexpr Duration operator-(Duration a, Duration b) { return {a.ns - b.ns}; }
  friend constexpr Duration operator*(Duration a, int64_t k) { return {a.ns * k}; }
};

struct Time {
  int64_t ns = 0;

  static constexpr Time Max() { return {INT64_MAX}; }

  friend constexpr auto operator<=>(Time, Time) = default;
  friend constexpr Duration operator-(Time a, Time b) { return {a.ns - b.ns}; }
  // Saturates at Max, so that "no deadline" plus anything stays "no deadline".
  friend constexpr Time operator+(Time t, Duration d) {
    return d.ns > 0 && t.ns > INT64_MAX - d.ns ? Max() : Time{t.ns + d.ns};
  }
};

struct WallTime {
  int64_t ns = 0;  // since 1970-01-01 UTC
  constexpr int64_t whole_seconds() const { return ns / 1'000'000'000; }
  friend constexpr auto operator<=>(WallTime, WallTime) = default;
};

}  // namespace sluice
