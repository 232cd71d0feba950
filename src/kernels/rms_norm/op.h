// RMS(x; g) = bf16(g * (x * rsqrt(mean(x^2) + eps))), float inside, in this order (spec model.md
// §3.0).
//
// Float32 mean: 16 lanes, lane i sums the squares of elements i, i+16, ... ascending; then lanes
// i and i+8 are added, i and i+4, i and i+2, the last two; times 1/n is a division by n.

#pragma once

#include <cstdint>

#include "tensor/formats.h"
#include "tensor/stream.h"

namespace sluice::ops::rms_norm {

struct Params {
  const Bf16* x = nullptr;       // [n_rows, n_columns]
  const float* x_f32 = nullptr;  // or this, with weight_f32
  int64_t x_stride = 0;
  int64_t n_rows = 0;
  int32_t n_columns = 0;
  const Bf16* weight = nullptr;  // g [n_columns]
  const float* weight_f32 = nullptr;
  float eps = 0;
  Bf16* out = nullptr;  // [n_rows, n_columns], may be x
  int64_t out_stride = 0;
};

void Run(const Params& params, Stream& stream);

}  // namespace sluice::ops::rms_norm
