// ExpFloat32 of elementary.h in four lanes: the same operations in each, so the same bits. Pure
// functions.

#pragma once

#include <cstdint>

#include "kernels/simd/elementary.h"
#include "tensor/stream.h"

namespace sluice::simd {

// Four values that are computed with together, as g++ and clang spell it.
typedef float Floats4 __attribute__((vector_size(16)));
typedef int32_t Ints4 __attribute__((vector_size(16)));

inline Floats4 Exp4Float32(Floats4 x) {
  constexpr float kRound = 0x1.8p23F;
  const Floats4 round = {kRound, kRound, kRound, kRound};
  const Floats4 low = {-88.0F, -88.0F, -88.0F, -88.0F};
  const Floats4 high = {89.0F, 89.0F, 89.0F, 89.0F};
  const Floats4 above = x < low ? low : x;
  const Floats4 bounded = high < above ? high : above;
  const Floats4 shifted = bounded * 0x1.715476p0F + round;
  const Floats4 n = shifted - round;
  const Floats4 r = (bounded - n * 0.693359375F) - n * -2.12194440e-4F;

  Floats4 p = r * 1.9875691500e-4F + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  const Floats4 fraction = (p * (r * r) + r) + 1.0F;

  const Ints4 exponent = (Ints4)shifted - (Ints4)round;
  const Ints4 half = exponent >> 1;
  const auto power_of_two = [](Ints4 e) { return (Floats4)((e + 127) << 23); };
  const Floats4 value = fraction * power_of_two(half) * power_of_two(exponent - half);
  const Floats4 zero = {};
  const Floats4 lowest = {-87.3365F, -87.3365F, -87.3365F, -87.3365F};
  return x < lowest ? zero : value;
}

inline Floats4 Exp4(Floats4 x, Arithmetic arithmetic) {
  if (arithmetic == Arithmetic::kFloat32) return Exp4Float32(x);
  return Floats4{Exp(x[0], arithmetic), Exp(x[1], arithmetic), Exp(x[2], arithmetic),
                 Exp(x[3], arithmetic)};
}

}  // namespace sluice::simd
