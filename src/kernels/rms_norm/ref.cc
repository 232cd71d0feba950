#include "kernels/rms_norm/op.h"
#include "kernels/simd/elementary.h"
#include "kernels/simd/flush_denormals.h"
#include "kernels/simd/lane_sum.h"

namespace sluice::ops::rms_norm {
namespace {

float ValueOf(Bf16 x) { return ToFloat(x); }
float ValueOf(float x) { return x; }

template <typename Value>
struct Row {
  const Value* x;
  const Value* weight;
  Bf16* out;
};

template <typename Value>
void NormalizeRow(const Row<Value>& row, int32_t n_columns, float eps, Arithmetic arithmetic) {
  const Value* x = row.x;
  const float mean = simd::LaneMean(n_columns, arithmetic, [x](int64_t i) {
    const float value = ValueOf(x[i]);
    return value * value;
  });
  const float inverse = simd::Rsqrt(mean + eps, arithmetic);
  for (int32_t i = 0; i < n_columns; ++i) {
    const float normalized = ValueOf(x[i]) * inverse;
    row.out[i] = ToBf16(ValueOf(row.weight[i]) * normalized);
  }
}

}  // namespace

void Run(const Params& params, Stream& stream) {
  stream.team.Run(params.n_rows, [&](int64_t begin, int64_t end, int32_t) {
    const simd::FlushDenormals flush(stream.arithmetic);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t at = i * params.x_stride;
      Bf16* out = params.out + i * params.out_stride;
      if (params.x != nullptr) {
        NormalizeRow<Bf16>({.x = params.x + at, .weight = params.weight, .out = out},
                           params.n_columns, params.eps, stream.arithmetic);
      } else {
        NormalizeRow<float>({.x = params.x_f32 + at, .weight = params.weight_f32, .out = out},
                            params.n_columns, params.eps, stream.arithmetic);
      }
    }
  });
}

}  // namespace sluice::ops::rms_norm
