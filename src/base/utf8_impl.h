// Steps over UTF-8, shared by utf8.cc and json_writer.cc, which both walk text byte by byte.
// Pure.

#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace sluice {

struct Utf8Step {
  uint8_t n_bytes;  // of the character, or of the maximal subpart of an ill-formed one; >= 1
  bool valid;
  bool cut;  // ill-formed only because the text ends
};

// The first character of p[0, n), n >= 1. Ranges of the second byte: Unicode standard, table 3-7.
inline Utf8Step StepUtf8(const unsigned char* p, size_t n) {
  unsigned char lead = p[0];
  if (lead < 0x80) return {1, true, false};
  if (lead < 0xC2 || lead > 0xF4) return {1, false, false};
  uint8_t n_whole = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  for (uint8_t i = 1; i < n_whole; ++i) {
    if (i == n) return {i, false, true};
    if (p[i] < low || p[i] > high) return {i, false, false};
    low = 0x80;
    high = 0xBF;
  }
  return {n_whole, true, false};
}

// Bytes of the valid characters beyond ASCII at the start of p[0, n).
inline size_t WidePrefix(const unsigned char* p, size_t n) {
  static_assert(std::endian::native == std::endian::little);
  size_t i = 0;
  while (i < n && p[i] >= 0x80) {
    // Three bytes, as in most of the world's texts, are checked at once: the marks of the three,
    // then the four bits of the first and the top bit of the second that tell overlong forms (0, 0)
    // and surrogates (D, 1) from characters.
    if (n - i >= 4) {
      uint32_t v;
      std::memcpy(&v, p + i, sizeof(v));
      const uint32_t edge = v & 0x200F;
      if ((v & 0xC0C0F0) == 0x8080E0 && edge != 0 && edge != 0x200D) {
        i += 3;
        continue;
      }
    }
    Utf8Step step = StepUtf8(p + i, n - i);
    if (!step.valid) break;
    i += step.n_bytes;
  }
  return i;
}

}  // namespace sluice
