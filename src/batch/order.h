// The order in which rows run: those whose prompts begin alike follow one another, so that what
// they share is met in the prefix cache. Pure functions.

#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/ids.h"

namespace sluice::batch {

// What sorting keeps of a prompt, whatever its length: hashes of its beginnings of 64, 128, 192,
// 256, 384, ... 262,144 tokens, two for each doubling; 0 where the prompt ends before. Sorted by
// it, prompts that share a beginning stand together, and within them those that share a longer one.
//
// Hashes may be equal by chance: that costs a hit, nothing else. So sixteen bits do, and ten
// million rows fit in memory, which their tokens would not.
struct PrefixKey {
  static constexpr size_t kNumLevels = 24;
  std::array<uint16_t, kNumLevels> levels = {};

  friend auto operator<=>(const PrefixKey&, const PrefixKey&) = default;
};

PrefixKey KeyOf(std::span<const TokenId> prompt);

}  // namespace sluice::batch
