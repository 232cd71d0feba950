// 2^x for softmax, x <= 0: one fixed sequence of operations, fused where the comment says so, that
// a vector variant does in each lane. Pure functions.
//
//   x = max(x, -100); n = x to the nearest integer; f = x - n, exact
//   2^x = 2^n (1 + f P(f)), P by fused multiply-adds; relative error 2.9e-6, 2^0 is 1
//
// A probability is rounded to bf16 behind it, whose steps are a thousand times as large. What is
// below 2^-100 of the largest counts as that, so nothing here is denormal; NaN stays NaN.

#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace sluice::simd {

inline constexpr float kExp2Lowest = -100.0F;
inline constexpr float kExp2Round = 0x1.8p23F;  // adding it rounds to an integer
inline constexpr float kLog2OfE = 1.44269504F;
// Of P, lowest power first; fitted for the least relative error on [-0.5, 0.5].
inline constexpr float kExp2C0 = 0x1.62e12cp-1F;
inline constexpr float kExp2C1 = 0x1.ec0378p-3F;
inline constexpr float kExp2C2 = 0x1.c9fc46p-5F;
inline constexpr float kExp2C3 = 0x1.3a02cap-7F;

inline float Exp2(float x) {
  const float bounded = x < kExp2Lowest ? kExp2Lowest : x;
  const float shifted = bounded + kExp2Round;
  const float n = shifted - kExp2Round;
  const float f = bounded - n;
  float p = std::fma(kExp2C3, f, kExp2C2);
  p = std::fma(p, f, kExp2C1);
  p = std::fma(p, f, kExp2C0);
  p = std::fma(p, f, 1.0F);
  // n stands in the low bits of `shifted`; it goes to the exponent.
  return std::bit_cast<float>(std::bit_cast<uint32_t>(p) +
                              (std::bit_cast<uint32_t>(shifted) << 23));
}

}  // namespace sluice::simd
