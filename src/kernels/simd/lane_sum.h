// Sums over the columns of a row, in an order that depends on the number of columns alone.
//
// kFloat32: 16 lanes, lane i adds the terms i, i + 16, ... ascending from +0; then lanes i and i +
// 8 are added, i and i + 4, i and i + 2, the last two: what four vectors of 4 or one of 16 lanes
// do. kExact: in double, rounded once.

#pragma once

#include <cstdint>

#include "tensor/stream.h"

namespace sluice::simd {

// term(i) -> float, 0 <= i < n.
template <typename Term>
float LaneSumFloat32(int64_t n, const Term& term) {
  constexpr int64_t kLanes = 16;
  float lanes[kLanes] = {};
  const int64_t n_whole = n / kLanes * kLanes;
  for (int64_t first = 0; first < n_whole; first += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += term(first + lane);
  }
  for (int64_t i = n_whole; i < n; ++i) lanes[i - n_whole] += term(i);
  for (int64_t half = kLanes / 2; half > 0; half /= 2) {
    for (int64_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}

template <typename Term>
double SumExact(int64_t n, const Term& term) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += double{term(i)};
  return sum;
}

template <typename Term>
float LaneSum(int64_t n, Arithmetic arithmetic, const Term& term) {
  if (arithmetic == Arithmetic::kExact) return static_cast<float>(SumExact(n, term));
  return LaneSumFloat32(n, term);
}

template <typename Term>
float LaneMean(int64_t n, Arithmetic arithmetic, const Term& term) {
  if (arithmetic == Arithmetic::kExact) {
    return static_cast<float>(SumExact(n, term) / static_cast<double>(n));
  }
  return LaneSumFloat32(n, term) / static_cast<float>(n);
}

}  // namespace sluice::simd
