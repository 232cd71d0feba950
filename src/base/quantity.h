// Quantities as people write them: sizes and durations with their unit. A bare number is refused,
// so that "48" can never mean bytes to one reader and MiB to another. Pure functions.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/time.h"

namespace sluice {

// "48MiB": a whole number and B, KiB, MiB or GiB without a space. Nothing for any other text and
// above INT64_MAX.
std::optional<int64_t> ParseBytes(std::string_view text);
// "250ms": a whole number and ns, us, ms, s, m or h without a space.
std::optional<Duration> ParseDuration(std::string_view text);

// With the largest unit that divides the value, so that the parsers above read back the same; not
// negative.
std::string FormatBytes(int64_t n_bytes);
std::string FormatDuration(Duration duration);

}  // namespace sluice
