// Hyper-connection coefficients of one site (mHC with Sinkhorn; spec model.md §3.3):
//   r = rsqrt(mean(x^2) + eps), x = all streams of a row flattened; p = (fn x) * r
//   pre = sigmoid(p * scale_0 + base) + hc_eps; post = 2 sigmoid(p * scale_1 + base)
//   comb = softmax over destinations + hc_eps, then columns, then (rows, columns) n_iterations - 1
//   times, each divided by its sum + hc_eps.

#pragma once

#include <cstdint>

#include "tensor/formats.h"
#include "tensor/matrix.h"
#include "tensor/stream.h"

namespace sluice::ops::hyper_mix {

struct Params {
  const Bf16* streams = nullptr;  // [n_rows, n_streams, n_columns]
  int64_t n_rows = 0;
  int32_t n_streams = 0;  // S <= 8
  int32_t n_columns = 0;
  Matrix fn;                     // F32 [(2 + S) S, S * n_columns]
  const float* base = nullptr;   // [(2 + S) S]
  const float* scale = nullptr;  // [3]
  float rms_eps = 0;
  float hc_eps = 0;
  int32_t n_iterations = 0;
  float* pre = nullptr;   // [n_rows, S]
  float* post = nullptr;  // [n_rows, S]
  float* comb = nullptr;  // [n_rows, S source, S destination]
  float* p = nullptr;     // scratch [n_rows, (2 + S) S]: the projection
};

void Run(const Params& params, Stream& stream);

// The part after the projection, of one row: p [(2 + S) S] -> pre, post, comb.
struct SplitParams {
  const float* p = nullptr;
  const float* base = nullptr;
  const float* scale = nullptr;
  int32_t n_streams = 0;
  float hc_eps = 0;
  int32_t n_iterations = 0;
  float* pre = nullptr;
  float* post = nullptr;
  float* comb = nullptr;
};
void Split(const SplitParams& params, Arithmetic arithmetic);

}  // namespace sluice::ops::hyper_mix
