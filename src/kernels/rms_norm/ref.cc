#include "kernels/rms_norm/op.h"
#include "kernels/simd/elementary.h"
#include "kernels/simd/flush_denormals.h"
#include "kernels/simd/lane_sum.h"

namespace sluice::ops::rms_norm {
namespace {

void NormalizeRow(const Params& params, int64_t row, Arithmetic arithmetic) {
  const Bf16* x = params.x + row * params.x_stride;
  Bf16* out = params.out + row * params.out_stride;
  const float mean = simd::LaneMean(params.n_columns, arithmetic, [x](int64_t i) {
    const float value = ToFloat(x[i]);
    return value * value;
  });
  const float inverse = simd::Rsqrt(mean + params.eps, arithmetic);
  for (int32_t i = 0; i < params.n_columns; ++i) {
    const float normalized = ToFloat(x[i]) * inverse;
    out[i] = ToBf16(ToFloat(params.weight[i]) * normalized);
  }
}

}  // namespace

void Run(const Params& params, Stream& stream) {
  stream.team.Run(params.n_rows, [&](int64_t begin, int64_t end, int32_t) {
    const simd::FlushDenormals flush(stream.arithmetic);
    for (int64_t row = begin; row < end; ++row) NormalizeRow(params, row, stream.arithmetic);
  });
}

}  // namespace sluice::ops::rms_norm
