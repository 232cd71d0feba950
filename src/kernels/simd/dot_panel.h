// Dot products of rows with 16 outputs side by side, in the model's one order of addition. The
// inner loops of op linear.
//
// Written with 16-byte vectors, which every x86-64 has, because neither g++ nor clang reliably
// keeps an array of sums in registers otherwise (measured: 4 instead of 23 GFLOP/s).

#pragma once

#include <xmmintrin.h>

#include <cstdint>
#include <cstring>

namespace sluice::simd {

// Outputs of a panel: a cache line of floats, and four vectors, whose chains of additions hide each
// other's latency as soon as two rows go together.
inline constexpr int32_t kPanelOutputs = 16;

// Sanitizers check each access, here of vectors on the stack too: twenty times the time. So they
// leave this loop out and look at its far corners instead (ReachesProducts).
#define SLUICE_HOT_LOOP __attribute__((no_sanitize("address", "undefined")))

// Sum is float (Arithmetic::kFloat32) or double (kExact); Value, the type of inputs and weights,
// is the same or float.
template <typename Sum>
struct Vector {
  typedef Sum Type __attribute__((vector_size(16)));
  static constexpr int32_t kLanes = 16 / sizeof(Sum);
  static constexpr int32_t kPerPanel = kPanelOutputs / kLanes;

  // The next kLanes values.
  template <typename Value>
  SLUICE_HOT_LOOP static Type Load(const Value* values) {
    typedef Value Values __attribute__((vector_size(kLanes * sizeof(Value))));
    Values loaded;
    std::memcpy(&loaded, values, sizeof loaded);
    return __builtin_convertvector(loaded, Type);
  }
};

// Reads the last value of each row and of the panel.
template <int kRows, typename Value>
void ReachesProducts(const Value* x, int64_t x_stride, const Value* panel, int64_t n) {
  const auto touch = [](const Value& value) {
    static_cast<void>(*const_cast<volatile const Value*>(&value));
  };
  for (int row = 0; row < kRows; ++row) touch(x[row * x_stride + n - 1]);
  touch(panel[n * kPanelOutputs - 1]);
}

// sums[r][o] += x[r][0..n) . panel[0..n)[o] for kRows rows: one chain per sum, inputs in pairs,
// of each pair the odd one first; an odd last input alone (spec cpu-kernels.md §3.0, rule 1).
// x      [kRows, n], rows x_stride values apart
// panel  [n, kPanelOutputs]
// sums   [kRows, kPanelOutputs], taken up and left: a long product is made of panels whose inputs
//        follow each other, n even in all but the last
template <int kRows, typename Value, typename Sum>
SLUICE_HOT_LOOP void AddProducts(
    const Value* x, int64_t x_stride, const Value* panel, int64_t n, Sum* sums) {
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
  if (n > 0) ReachesProducts<kRows>(x, x_stride, panel, n);
#endif
#endif
  using Lanes = Vector<Sum>;
  typename Lanes::Type sum[kRows][Lanes::kPerPanel];
  for (int row = 0; row < kRows; ++row) {
    for (int v = 0; v < Lanes::kPerPanel; ++v) {
      sum[row][v] = Lanes::Load(sums + row * kPanelOutputs + v * Lanes::kLanes);
    }
  }
  const auto add = [&](int64_t k) SLUICE_HOT_LOOP {
    for (int v = 0; v < Lanes::kPerPanel; ++v) {
      const auto weights = Lanes::Load(panel + k * kPanelOutputs + v * Lanes::kLanes);
      for (int row = 0; row < kRows; ++row) {
        sum[row][v] += static_cast<Sum>(x[row * x_stride + k]) * weights;
      }
    }
  };
  for (int64_t k = 0; k + 1 < n; k += 2) {
    add(k + 1);
    add(k);
  }
  if (n % 2 != 0) add(n - 1);
  std::memcpy(sums, sum, sizeof sum);
}

// panel[k][o] = rows[o][k] for 4 of the outputs. rows [4, n], stride values apart; panel points at
// the first of the four in [n, kPanelOutputs].
static inline void StoreInPanel(const float* rows, int64_t stride, int64_t n, float* panel) {
  int64_t k = 0;
  for (; k + 4 <= n; k += 4) {
    __m128 a = _mm_loadu_ps(rows + k);
    __m128 b = _mm_loadu_ps(rows + stride + k);
    __m128 c = _mm_loadu_ps(rows + 2 * stride + k);
    __m128 d = _mm_loadu_ps(rows + 3 * stride + k);
    _MM_TRANSPOSE4_PS(a, b, c, d);
    _mm_storeu_ps(panel + k * kPanelOutputs, a);
    _mm_storeu_ps(panel + (k + 1) * kPanelOutputs, b);
    _mm_storeu_ps(panel + (k + 2) * kPanelOutputs, c);
    _mm_storeu_ps(panel + (k + 3) * kPanelOutputs, d);
  }
  for (; k < n; ++k) {
    for (int64_t o = 0; o < 4; ++o) panel[k * kPanelOutputs + o] = rows[o * stride + k];
  }
}

}  // namespace sluice::simd
