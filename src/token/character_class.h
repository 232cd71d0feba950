// Classes of characters, as the rules that cut text into pieces know them: the general categories
// of Unicode 16.0, White_Space, and the characters that are cut off as Chinese or Japanese.
// Pure; thread-safe.

#pragma once

#include <cstdint>

namespace sluice::token {

// Bits: a character has at most one of the first five; kNewline and kCjk come on top.
enum CharacterClass : uint8_t {
  kLetter = 1,    // L
  kMark = 2,      // M
  kNumber = 4,    // N
  kSymbol = 8,    // P and S
  kSpace = 16,    // White_Space
  kNewline = 32,  // CR and LF
  kCjk = 64,      // U+4E00-U+9FA5, U+3040-U+309F, U+30A0-U+30FF; unassigned ones too
};

inline constexpr uint32_t kMaxCodePoint = 0x10FFFF;

// [kMaxCodePoint + 1]: the classes of each code point. Lives for ever.
const uint8_t* CharacterClasses();

}  // namespace sluice::token
