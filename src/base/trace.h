// Trace zones: where the time of one request went, hop by hop.
//
// RequestTrace travels with the request from thread to thread and is passed as an argument; there
// is no ambient one. Thread-compatible.

#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/time.h"

namespace sluice {

#define SLUICE_ZONE(enumerator, zone, hop, thread, file, function, from_to) enumerator,
enum class Zone : uint8_t {
#include "base/trace.def"
};
#undef SLUICE_ZONE

struct ZoneRow {
  Zone zone;
  std::string_view name;  // "http.read"
  int32_t hop;
  std::string_view thread;
  std::string_view file;  // several: one per function, in the same order
  std::string_view function;
  std::string_view from_to;
};

#define SLUICE_ZONE(enumerator, zone, hop, thread, file, function, from_to) \
  ZoneRow{Zone::enumerator, zone, hop, thread, file, function, from_to},
inline constexpr ZoneRow kZones[] = {
#include "base/trace.def"
};
#undef SLUICE_ZONE

inline constexpr int32_t kNumZones = static_cast<int32_t>(std::size(kZones));

struct RequestTrace {
  std::array<Duration, kNumZones> spent{};

  void Add(Zone zone, Duration d) {
    Duration& sum = spent[static_cast<size_t>(zone)];
    sum = sum + d;
  }
  void Add(const RequestTrace& other) {
    for (size_t i = 0; i < spent.size(); ++i) spent[i] = spent[i] + other.spent[i];
  }
  Duration of(Zone zone) const { return spent[static_cast<size_t>(zone)]; }
};

}  // namespace sluice
