// y = x W^T: the formula.

#include <cmath>
#include <vector>

#include "kernels/linear/op.h"
#include "kernels/simd/flush_denormals.h"

namespace sluice::ops::linear::ref {
namespace {

// One output.
float Chain(const Bf16* x, const std::vector<float>& weights, bool is_f32) {
  float sum = 0;
  const auto add = [&](size_t i) {
    if (is_f32) {
      const float product = ToFloat(x[i]) * weights[i];
      sum = sum + product;
    } else {
      sum = std::fma(ToFloat(x[i]), weights[i], sum);
    }
  };
  for (size_t i = 0; i + 1 < weights.size(); i += 2) {
    add(i + 1);
    add(i);
  }
  if (weights.size() % 2 != 0) add(weights.size() - 1);
  return sum;
}

// Weights of one output. Not with denormals flushed: a code times a subnormal scale may be a normal
// number.
void Decode(const Matrix& matrix, int64_t output, std::vector<float>& weights) {
  DecodeMatrixRow(matrix, output, weights.data());
  if (!IsQuantized(matrix.format)) return;
  for (float& weight : weights) weight += 0.0F;  // of codes -0 is 0
}

void RunOutput(const Params& params, int64_t output, const std::vector<float>& weights) {
  const simd::FlushDenormals flush(Arithmetic::kFloat32);
  for (int64_t row = 0; row < params.n_rows; ++row) {
    const bool is_f32 = params.weight.format == MatrixFormat::kF32;
    const float sum = Chain(params.x + row * params.x_stride, weights, is_f32);
    const int64_t at = row * params.out_stride + output;
    if (params.out != nullptr) params.out[at] = ToBf16(sum);
    if (params.out_f32 != nullptr) params.out_f32[at] = sum;
  }
}

}  // namespace

void Run(const Params& params, Stream& stream) {
  if (stream.arithmetic == Arithmetic::kExact) return RunExact(params, stream);
  stream.team.Run(params.weight.n_out, [&](int64_t begin, int64_t end, int32_t) {
    std::vector<float> weights(static_cast<size_t>(params.weight.n_in));
    for (int64_t output = begin; output < end; ++output) {
      Decode(params.weight, output, weights);
      RunOutput(params, output, weights);
    }
  });
}

}  // namespace sluice::ops::linear::ref
