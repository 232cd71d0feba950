// Number formats of the model and their rounding (spec model.md §2.2, §3.0). Pure functions, exact
// to the bit on every machine.
//
//   bf16   1-8-7                                               16 bits
//   f16    1-5-10, bias 15                                     16 bits, read only
//   E4M3   1-4-3, bias 7, largest 448, no infinity, 0x7f NaN   8 bits
//   E2M1   +-{0, .5, 1, 1.5, 2, 3, 4, 6}, code 8 is -0         4 bits, two per byte; the low
//                                                              nibble is the even one
//   E8M0   2^(byte - 127)                                      8 bits
//
// All conversions round to nearest, ties to even, and saturate; the sign of zero is kept. A NaN
// input gives an unspecified code.

#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace sluice {

struct Bf16 {
  uint16_t bits;
  friend constexpr bool operator==(Bf16, Bf16) = default;
};

constexpr float ToFloat(Bf16 x) { return std::bit_cast<float>(uint32_t{x.bits} << 16); }

constexpr Bf16 ToBf16(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) return {static_cast<uint16_t>((bits >> 16) | 0x40)};  // NaN
  return {static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16)};
}

// The value of an IEEE 754 binary16, infinities and NaN included. No denormal float on the way, so
// flushing them changes nothing, and no branch, so that a loop of it becomes vectors.
constexpr float FromF16(uint16_t bits) {
  constexpr int32_t kExponentOne = 1 << 23;
  const int32_t magnitude = (bits & 0x7FFF) << 13;
  // The exponent's bias is 112 larger; infinity and NaN, from 31 << 23 on, go up as much again.
  const int32_t is_special = -(magnitude >= 31 * kExponentOne ? 1 : 0);
  const int32_t normal = magnitude + 112 * kExponentOne + (is_special & 112 * kExponentOne);
  // (2^-14 + value) - 2^-14, exact.
  const int32_t subnormal =
      std::bit_cast<int32_t>(std::bit_cast<float>(magnitude + 113 * kExponentOne) - 0x1p-14F);
  const int32_t is_subnormal = -(magnitude < kExponentOne ? 1 : 0);
  const int32_t value = (subnormal & is_subnormal) | (normal & ~is_subnormal);
  return std::bit_cast<float>(static_cast<uint32_t>(value) | uint32_t{bits & 0x8000U} << 16);
}

// x rounded to bf16, as a float.
constexpr float RoundToBf16(float x) { return ToFloat(ToBf16(x)); }

// The value of every code. Inline below, because decoding weights is most of a step with few rows.
extern const std::array<float, 256> kE4m3Values;  // 0x7f and 0xff: NaN
extern const std::array<float, 16> kE2m1Values;

uint8_t ToE4m3(float x);
inline float FromE4m3(uint8_t code) { return kE4m3Values[code]; }

uint8_t ToE2m1(float x);                                                // 0..15
inline float FromE2m1(uint8_t code) { return kE2m1Values[code & 15]; }  // the low nibble counts

// 2^(code - 127). Code 0 is a subnormal float; 255 means NaN in the format and never occurs.
constexpr float FromE8m0(uint8_t code) {
  return code == 0 ? std::bit_cast<float>(uint32_t{1} << 22)
                   : std::bit_cast<float>(uint32_t{code} << 23);
}

// k of the smallest power of two 2^k >= x, from the bit pattern. x positive and normal. [P2C]
constexpr int32_t Pow2CeilExponent(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  return static_cast<int32_t>(bits >> 23) - 127 + ((bits & 0x7FFFFF) != 0 ? 1 : 0);
}

// Groups of values with a common scale.
enum class GroupFormat : uint8_t {
  kFp8,    // E4M3 codes, an E8M0 scale per 32   [AQ8]   activations, window KV, Engram tables
  kFp4Mx,  // E2M1 codes, an E8M0 scale per 32   [QDQ4m] index keys and queries
  kFp4Nv,  // E2M1 codes, an E4M3 scale per 16   [QDQ4n] compressed KV entries
};

constexpr int32_t GroupSize(GroupFormat format) { return format == GroupFormat::kFp4Nv ? 16 : 32; }
// Bytes of the codes and of the scales of n values; n is a multiple of the group size.
constexpr int32_t CodeBytes(GroupFormat format, int32_t n) {
  return format == GroupFormat::kFp8 ? n : n / 2;
}
constexpr int32_t ScaleBytes(GroupFormat format, int32_t n) { return n / GroupSize(format); }
constexpr int32_t RowBytes(GroupFormat format, int32_t n) {
  return CodeBytes(format, n) + ScaleBytes(format, n);
}

// x [n] -> codes [CodeBytes], scales [ScaleBytes].
void QuantizeRow(GroupFormat format, const Bf16* x, int32_t n, uint8_t* codes, uint8_t* scales);
// The values, all exact in bf16.
void DequantizeRow(
    GroupFormat format, const uint8_t* codes, const uint8_t* scales, int32_t n, float* out);

}  // namespace sluice
