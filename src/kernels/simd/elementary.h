// Elementary functions of the operators, in both arithmetics. Pure functions.
//
// kExact: in double, rounded once to float (spec cpu-kernels.md §3.0).
// kFloat32: one fixed sequence of float additions and multiplications without FMA, library call or
// branch, so that a vector variant can do the same in each lane and give the same bits. softplus
// and rsqrt are rare (one per expert or row) and use the library's log1p and the square root, which
// IEEE 754 rounds correctly everywhere.

#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "tensor/stream.h"

namespace sluice::simd {

// 2^exponent, exponent in [-126, 127]; unsigned, because a NaN on its way through Exp brings any
// number here.
inline float PowerOfTwo(int32_t exponent) {
  return std::bit_cast<float>((static_cast<uint32_t>(exponent) + 127U) << 23);
}

// e^x within 1.5 ulp. Results below the normal range are 0; NaN stays NaN.
//   x = n ln 2 + r, |r| <= ln(2) / 2;  e^x = 2^n (1 + r + r^2 P(r)), P of Cephes' expf
inline float ExpFloat32(float x) {
  // ln 2 in two parts; the first has 9 bits, so that n times it is exact.
  constexpr float kLn2High = 0.693359375F;
  constexpr float kLn2Low = -2.12194440e-4F;
  // Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits.
  constexpr float kRound = 0x1.8p23F;
  // e^89 is above the float range; the lower end is 0 anyway.
  const float bounded = std::min(std::max(x, -88.0F), 89.0F);
  const float shifted = bounded * 0x1.715476p0F + kRound;
  const float n = shifted - kRound;
  const float r = (bounded - n * kLn2High) - n * kLn2Low;

  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  const float fraction = (p * (r * r) + r) + 1.0F;

  // In two steps, because 2^128 is no float but 2^128 * fraction may be one.
  const int32_t exponent = std::bit_cast<int32_t>(shifted) - std::bit_cast<int32_t>(kRound);
  const int32_t half = exponent >> 1;
  const float value = fraction * PowerOfTwo(half) * PowerOfTwo(exponent - half);
  // A little above ln 2^-126, so that no result depends on how denormals are treated.
  return x < -87.3365F ? 0.0F : value;
}

// The double paths are formulas of the reference: even their last bit before rounding is meant.

inline float Exp(float x, Arithmetic arithmetic) {
  if (arithmetic == Arithmetic::kExact) return static_cast<float>(std::exp(double{x}));
  return ExpFloat32(x);
}

// 1 / (1 + e^-x)
inline float Sigmoid(float x, Arithmetic arithmetic) {
  if (arithmetic == Arithmetic::kExact) {
    return static_cast<float>(1.0 / (1.0 + std::exp(-double{x})));
  }
  return 1.0F / (1.0F + ExpFloat32(-x));
}

// x / (1 + e^-x)
inline float Silu(float x, Arithmetic arithmetic) {
  if (arithmetic == Arithmetic::kExact) {
    return static_cast<float>(double{x} / (1.0 + std::exp(-double{x})));
  }
  return x / (1.0F + ExpFloat32(-x));
}

// log(1 + e^x), x itself above 20 (as torch defines it). In double in every arithmetic.
inline float Softplus(float x, Arithmetic) {
  return x > 20.0F ? x : static_cast<float>(std::log1p(std::exp(double{x})));
}

// 1 / sqrt(x)
inline float Rsqrt(float x, Arithmetic arithmetic) {
  if (arithmetic == Arithmetic::kExact) return static_cast<float>(1.0 / std::sqrt(double{x}));
  return 1.0F / std::sqrt(x);
}

}  // namespace sluice::simd
