#include <algorithm>
#include <cmath>

#include "kernels/engram_gate/op.h"
#include "kernels/simd/elementary.h"
#include "kernels/simd/flush_denormals.h"
#include "kernels/simd/lane_sum.h"

namespace sluice::ops::engram_gate {
namespace {

// What one (row, stream) reads; [n_columns] each.
struct Operands {
  const Bf16* x;
  const Bf16* key;
  const Bf16* q_weight;
  const Bf16* k_weight;
  int32_t n_columns;
};

// rsqrt(mean(x^2) + eps)
float InverseRms(const Bf16* x, int32_t n_columns, float eps, Arithmetic arithmetic) {
  const float mean = simd::LaneMean(n_columns, arithmetic, [x](int64_t i) {
    const float value = ToFloat(x[i]);
    return value * value;
  });
  return simd::Rsqrt(mean + eps, arithmetic);
}

float Gate(const Operands& in, float eps, Arithmetic arithmetic) {
  const float inverse = InverseRms(in.x, in.n_columns, eps, arithmetic) *
                        InverseRms(in.key, in.n_columns, eps, arithmetic);
  const float sum = simd::LaneSum(in.n_columns, arithmetic, [&in](int64_t i) {
    const float weight = ToFloat(in.q_weight[i]) * ToFloat(in.k_weight[i]);
    return ToFloat(in.x[i]) * weight * ToFloat(in.key[i]);
  });
  const auto shrink = static_cast<float>(std::pow(static_cast<double>(in.n_columns), -0.5));
  const float match = sum * inverse * shrink;
  const float root = std::sqrt(std::max(std::fabs(match), 1e-6F));
  return simd::Sigmoid(std::copysign(root, match), arithmetic);
}

void WriteStream(Bf16* x, const Bf16* value, float gate, int32_t n_columns) {
  for (int32_t i = 0; i < n_columns; ++i) x[i] = ToBf16(ToFloat(x[i]) + gate * ToFloat(value[i]));
}

}  // namespace

void Run(const Params& params, Stream& stream) {
  const int64_t n_columns = params.n_columns;
  const int64_t n_streams = params.n_streams;
  stream.team.Run(params.n_rows * n_streams, [&](int64_t begin, int64_t end, int32_t) {
    const simd::FlushDenormals flush(stream.arithmetic);
    for (int64_t item = begin; item < end; ++item) {
      const int64_t row = item / n_streams;
      const int64_t i = item % n_streams;
      Bf16* x = params.streams + item * n_columns;
      const Bf16* keys = params.kv + row * (n_streams + 1) * n_columns;
      const bool is_image = params.is_image != nullptr && params.is_image[row] != 0;
      const Operands operands = {.x = x,
                                 .key = keys + i * n_columns,
                                 .q_weight = params.q_weight + i * n_columns,
                                 .k_weight = params.k_weight + i * n_columns,
                                 .n_columns = params.n_columns};
      params.gate[item] = is_image ? 0.0F : Gate(operands, params.eps, stream.arithmetic);
      WriteStream(x, keys + n_streams * n_columns, params.gate[item], params.n_columns);
    }
  });
}

}  // namespace sluice::ops::engram_gate
