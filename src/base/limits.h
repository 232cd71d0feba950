// The fixed limits of limits.def as constants, and as a list for `sluice doctor limits`. Immutable.

#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/bytes.h"

namespace sluice::limits {

#define SLUICE_LIMIT(name, value, unit, sentence) inline constexpr int64_t name = value;
#include "base/limits.def"
#undef SLUICE_LIMIT

struct Limit {
  std::string_view name;  // "kMaxStops"
  int64_t value;
  std::string_view unit;
  std::string_view sentence;
};

// In the order of limits.def.
std::span<const Limit> All();

}  // namespace sluice::limits
