// The gated write of Engram into the residual streams (spec model.md §3.6), per stream i:
//   d = sum_c x[c] (q[c] k[c]) key[c] * (rsqrt(mean(x^2) + eps) * rsqrt(mean(key^2) + eps)) n^-1/2
//   gate = sigmoid(copysign(sqrt(max(|d|, 1e-6)), d)), 0 for image rows;  x <- bf16(x + gate value)
// (x * (q k)) * key, products rounded to float. Float32 sums as in op rms_norm (16 lanes and a
// tree).

#pragma once

#include <cstdint>

#include "tensor/formats.h"
#include "tensor/stream.h"

namespace sluice::ops::engram_gate {

struct Params {
  Bf16* streams = nullptr;   // [n_rows, n_streams, n_columns], in place
  const Bf16* kv = nullptr;  // [n_rows, (n_streams + 1) * n_columns]: a key per stream, the value
  const Bf16* q_weight = nullptr;  // [n_streams, n_columns]
  const Bf16* k_weight = nullptr;
  const uint8_t* is_image = nullptr;  // [n_rows]; null: none
  int64_t n_rows = 0;
  int32_t n_streams = 0;
  int32_t n_columns = 0;
  float eps = 0;
  float* gate = nullptr;  // [n_rows, n_streams]
};

void Run(const Params& params, Stream& stream);

}  // namespace sluice::ops::engram_gate
