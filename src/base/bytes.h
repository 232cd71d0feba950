// Spans of bytes and sizes with units.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice {

using ConstBytes = std::span<const std::byte>;
using MutableBytes = std::span<std::byte>;

inline constexpr int64_t kKiB = int64_t{1} << 10;
inline constexpr int64_t kMiB = int64_t{1} << 20;
inline constexpr int64_t kGiB = int64_t{1} << 30;

}  // namespace sluice
