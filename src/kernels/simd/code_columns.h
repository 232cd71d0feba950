// Codes of 16 outputs from rows of bytes to columns of floats, 16 outputs side by side. The
// decoding of op block_linear, with 16-byte vectors, which every x86-64 has. Pure functions.

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
  // The place of a byte is 4 bits of row and 4 bits of column; each round turns these 8 bits by
  // one.
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < 8; ++i) {
      to[2 * i] = _mm_unpacklo_epi8(from[i], from[i + 8]);
      to[2 * i + 1] = _mm_unpackhi_epi8(from[i], from[i + 8]);
    }
    std::swap(from, to);
  }
  for (int i = 0; i < 16; ++i) columns[i] = from[i];
}

// FromF16 (tensor/formats.h) of four values, each in the low half of its lane.
inline __m128 F16ToFloats(__m128i bits) {
  const auto exponents = [](int32_t n) { return _mm_set1_epi32(n << 23); };
  const __m128i magnitude = _mm_slli_epi32(_mm_and_si128(bits, _mm_set1_epi32(0x7FFF)), 13);
  const __m128i is_special =
      _mm_cmpgt_epi32(magnitude, _mm_sub_epi32(exponents(31), _mm_set1_epi32(1)));
  const __m128i lift = _mm_add_epi32(exponents(112), _mm_and_si128(is_special, exponents(112)));
  const __m128 normal = _mm_castsi128_ps(_mm_add_epi32(magnitude, lift));
  const __m128 shifted = _mm_castsi128_ps(_mm_add_epi32(magnitude, exponents(113)));
  const __m128 subnormal = _mm_sub_ps(shifted, _mm_set1_ps(0x1p-14F));
  const __m128 is_subnormal = _mm_castsi128_ps(_mm_cmplt_epi32(magnitude, exponents(1)));
  const __m128 value =
      _mm_or_ps(_mm_and_ps(is_subnormal, subnormal), _mm_andnot_ps(is_subnormal, normal));
  const __m128i sign = _mm_slli_epi32(_mm_srli_epi32(bits, 15), 31);
  return _mm_or_ps(value, _mm_castsi128_ps(sign));
}

// 16 of them in a row.
inline void F16ToFloats(const uint16_t* bits, float* floats) {
  const __m128i zero = _mm_setzero_si128();
  for (int i = 0; i < 16; i += 8) {
    const __m128i eight = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bits + i));
    _mm_storeu_ps(floats + i, F16ToFloats(_mm_unpacklo_epi16(eight, zero)));
    _mm_storeu_ps(floats + i + 4, F16ToFloats(_mm_unpackhi_epi16(eight, zero)));
  }
}

// 16 bytes as four vectors of floats, each made when it is asked for, so that one at a time is in a
// register. kSigned: whether they go below 0. Exact.
template <bool kSigned>
class WidenedBytes {
 public:
  explicit WidenedBytes(__m128i bytes) : halves_{Spread8<false>(bytes), Spread8<true>(bytes)} {}

  // v 0 to 3; a constant wherever this is unrolled.
  __m128 Get(int v) const {
    const __m128i half = halves_[v / 2];
    const __m128i zero = _mm_setzero_si128();
    // A byte with a sign is at the top of its lane by now and is shifted down with it.
    const __m128i a = kSigned ? zero : half;
    const __m128i b = kSigned ? half : zero;
    const __m128i lanes = v % 2 == 0 ? _mm_unpacklo_epi16(a, b) : _mm_unpackhi_epi16(a, b);
    return _mm_cvtepi32_ps(kSigned ? _mm_srai_epi32(lanes, 24) : lanes);
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
