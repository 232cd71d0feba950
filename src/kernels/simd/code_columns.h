// Codes of 16 outputs from rows of bytes to columns of floats, 16 outputs side by side. The decoding
// of op block_linear, with 16-byte vectors, which every x86-64 has. Pure functions.

#pragma once

#include <emmintrin.h>

#include <cstdint>
#include <utility>

namespace sluice::simd {

// columns[k] = byte k of each of the 16 rows of 16 bytes, which lie stride bytes apart.
inline void TransposeBytes(const int8_t* rows, int64_t stride, __m128i* columns) {
  __m128i from[16];
  __m128i to[16];
  for (int i = 0; i < 16; ++i) {
    from[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows + i * stride));
  }
  // The place of a byte is 4 bits of row and 4 bits of column; each round turns these 8 bits by one.
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < 8; ++i) {
      to[2 * i] = _mm_unpacklo_epi8(from[i], from[i + 8]);
      to[2 * i + 1] = _mm_unpackhi_epi8(from[i], from[i + 8]);
    }
    std::swap(from, to);
  }
  for (int i = 0; i < 16; ++i) columns[i] = from[i];
}

// 16 bytes as four vectors of floats, each made when it is asked for, so that one at a time is in a
// register. kSigned: whether they go below 0. Exact.
template <bool kSigned>
class WidenedBytes {
 public:
  explicit WidenedBytes(__m128i bytes)
      : halves_{Spread8<false>(bytes), Spread8<true>(bytes)} {}

  template <int kVector>
  __m128 Get() const {
    const __m128i half = halves_[kVector / 2];
    const __m128i zero = _mm_setzero_si128();
    constexpr bool kHigh = kVector % 2 == 1;
    if constexpr (kSigned) {
      // A byte with a sign is at the top of its lane by now and is shifted down with it.
      const __m128i lanes =
          kHigh ? _mm_unpackhi_epi16(zero, half) : _mm_unpacklo_epi16(zero, half);
      return _mm_cvtepi32_ps(_mm_srai_epi32(lanes, 24));
    } else {
      return _mm_cvtepi32_ps(kHigh ? _mm_unpackhi_epi16(half, zero)
                                   : _mm_unpacklo_epi16(half, zero));
    }
  }

 private:
  template <bool kHigh>
  static __m128i Spread8(__m128i bytes) {
    const __m128i zero = _mm_setzero_si128();
    const __m128i a = kSigned ? zero : bytes;
    const __m128i b = kSigned ? bytes : zero;
    return kHigh ? _mm_unpackhi_epi8(a, b) : _mm_unpacklo_epi8(a, b);
  }

  __m128i halves_[2];
};

}  // namespace sluice::simd
