#include <algorithm>

#include "base/check.h"
#include "kernels/hyper_mix/op.h"
#include "kernels/linear/op.h"
#include "kernels/simd/elementary.h"
#include "kernels/simd/flush_denormals.h"
#include "kernels/simd/lane_sum.h"

namespace sluice::ops::hyper_mix {
namespace {

constexpr int32_t kStreamsMax = 8;

// comb[i][j], source i, destination j. Sums ascend; each division is by a sum already rounded.
void NormalizeSources(float* comb, int32_t n, float eps) {
  for (int32_t i = 0; i < n; ++i) {
    float sum = comb[i * n];
    for (int32_t j = 1; j < n; ++j) sum += comb[i * n + j];
    for (int32_t j = 0; j < n; ++j) comb[i * n + j] /= sum + eps;
  }
}

void NormalizeDestinations(float* comb, int32_t n, float eps) {
  for (int32_t j = 0; j < n; ++j) {
    float sum = comb[j];
    for (int32_t i = 1; i < n; ++i) sum += comb[i * n + j];
    for (int32_t i = 0; i < n; ++i) comb[i * n + j] /= sum + eps;
  }
}

// p [n_streams, n_streams], already scaled -> softmax of each source over its destinations.
void SoftmaxSources(float* comb, int32_t n, Arithmetic arithmetic) {
  for (int32_t i = 0; i < n; ++i) {
    const float largest = *std::max_element(comb + i * n, comb + (i + 1) * n);
    for (int32_t j = 0; j < n; ++j) {
      comb[i * n + j] = simd::Exp(comb[i * n + j] - largest, arithmetic);
    }
  }
  NormalizeSources(comb, n, 0);
}

// p <- p * rsqrt(mean(x^2) + eps) of one row, then its coefficients.
void MixRow(const Params& params, int64_t row, Arithmetic arithmetic) {
  const int32_t n = params.n_streams;
  const int64_t n_values = int64_t{n} * params.n_columns;
  const Bf16* x = params.streams + row * n_values;
  const float mean = simd::LaneMean(n_values, arithmetic, [x](int64_t i) {
    const float value = ToFloat(x[i]);
    return value * value;
  });
  const float inverse = simd::Rsqrt(mean + params.rms_eps, arithmetic);
  float* p = params.p + row * (2 + n) * n;
  for (int32_t i = 0; i < (2 + n) * n; ++i) p[i] *= inverse;
  Split({.p = p,
         .base = params.base,
         .scale = params.scale,
         .n_streams = n,
         .hc_eps = params.hc_eps,
         .n_iterations = params.n_iterations,
         .pre = params.pre + row * n,
         .post = params.post + row * n,
         .comb = params.comb + row * n * n},
        arithmetic);
}

}  // namespace

void Split(const SplitParams& params, Arithmetic arithmetic) {
  const int32_t n = params.n_streams;
  const float* p = params.p;
  const float* base = params.base;
  for (int32_t i = 0; i < n; ++i) {
    params.pre[i] = simd::Sigmoid(p[i] * params.scale[0] + base[i], arithmetic) + params.hc_eps;
    const float post = simd::Sigmoid(p[n + i] * params.scale[1] + base[n + i], arithmetic);
    params.post[i] = 2.0F * post;
  }
  float* comb = params.comb;
  for (int32_t i = 0; i < n * n; ++i) {
    comb[i] = p[2 * n + i] * params.scale[2] + base[2 * n + i];
  }
  SoftmaxSources(comb, n, arithmetic);
  for (int32_t i = 0; i < n * n; ++i) comb[i] += params.hc_eps;
  NormalizeDestinations(comb, n, params.hc_eps);
  for (int32_t iteration = 1; iteration < params.n_iterations; ++iteration) {
    NormalizeSources(comb, n, params.hc_eps);
    NormalizeDestinations(comb, n, params.hc_eps);
  }
}

void Run(const Params& params, Stream& stream) {
  SLUICE_CHECK(params.n_streams <= kStreamsMax);
  linear::Run({.x = params.streams,
               .x_stride = int64_t{params.n_streams} * params.n_columns,
               .n_rows = params.n_rows,
               .weight = params.fn,
               .out_f32 = params.p,
               .out_stride = params.fn.n_out},
              stream);
  stream.team.Run(params.n_rows, [&](int64_t begin, int64_t end, int32_t) {
    const simd::FlushDenormals flush(stream.arithmetic);
    for (int64_t row = begin; row < end; ++row) MixRow(params, row, stream.arithmetic);
  });
}

}  // namespace sluice::ops::hyper_mix
