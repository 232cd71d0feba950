// y = x W^T with W in blocks: the formula.

#include <cstddef>
#include <vector>

#include "kernels/block_linear/op.h"
#include "kernels/simd/flush_denormals.h"
#include "tensor/block_decode.h"
#include "tensor/packed.h"

namespace sluice::ops::block_linear::ref {
namespace {

// The weights of one output.
struct WeightRow {
  std::vector<float> codes;   // [n_in]
  std::vector<float> scales;  // [n_groups]
  std::vector<float> mins;    // [n_groups], zeros in formats without
};

template <MatrixFormat kFormat>
WeightRow Decode(const Matrix& weight, int64_t output) {
  constexpr BlockShape kShape = ShapeOf(kFormat);
  constexpr auto kGroups = static_cast<size_t>(kShape.n_values / kShape.group);
  WeightRow row;
  for (int64_t block = 0; block < weight.n_in / kShape.n_values; ++block) {
    uint8_t bytes[kShape.n_bytes];
    LoadBlock(weight, output, block, bytes);
    int8_t codes[kShape.n_values];
    float scales[kGroups];
    float mins[kGroups] = {};
    DecodeCodes<kFormat>(bytes, codes);
    DecodeScales<kFormat>(bytes, scales, mins);
    row.codes.insert(row.codes.end(), codes, codes + kShape.n_values);
    row.scales.insert(row.scales.end(), scales, scales + kGroups);
    row.mins.insert(row.mins.end(), mins, mins + kGroups);
  }
  return row;
}

// s_g and t_g of one group.
struct GroupSums {
  float s = 0;
  float t = 0;
};

// The odd one of a pair first: inputs 1, 0, 3, 2, ... In one statement: of two that add to the same
// sum g++ 12 at -O3 makes wrong vectors (some inputs twice).
GroupSums SumGroup(const Bf16* x, const float* codes, size_t n) {
  GroupSums sums;
  for (size_t i = 0; i < n; ++i) {
    const size_t k = i ^ 1;
    const float product = ToFloat(x[k]) * codes[k];
    sums.s = sums.s + product;
    sums.t = sums.t + ToFloat(x[k]);
  }
  return sums;
}

float Sum(const Bf16* x, const WeightRow& row, bool has_min) {
  const simd::FlushDenormals flush(Arithmetic::kFloat32);
  const size_t n = row.codes.size() / row.scales.size();  // of a group
  float sum = 0;
  for (size_t group = 0; group < row.scales.size(); ++group) {
    const GroupSums sums = SumGroup(x + group * n, row.codes.data() + group * n, n);
    const float scaled = row.scales[group] * sums.s;
    sum = sum + scaled;
    if (!has_min) continue;
    const float shifted = row.mins[group] * sums.t;
    sum = sum + shifted;
  }
  return sum;
}

float ExactSum(const Bf16* x, const WeightRow& row) {
  const size_t n = row.codes.size() / row.scales.size();
  double sum = 0;
  for (size_t group = 0; group < row.scales.size(); ++group) {
    double s = 0;
    double t = 0;
    for (size_t k = group * n; k < (group + 1) * n; ++k) {
      s += double{ToFloat(x[k])} * double{row.codes[k]};
      t += double{ToFloat(x[k])};
    }
    sum += double{row.scales[group]} * s + double{row.mins[group]} * t;
  }
  return static_cast<float>(sum);
}

}  // namespace

void Run(const Params& params, Stream& stream) {
  const Arithmetic arithmetic = stream.arithmetic;
  const bool has_min = ShapeOf(params.weight.format).has_min;
  stream.team.Run(params.weight.n_out, [&](int64_t begin, int64_t end, int32_t) {
    for (int64_t output = begin; output < end; ++output) {
      WeightRow weights;
      WithBlockFormat(params.weight.format,
                      [&](auto tag) { weights = Decode<tag.kFormat>(params.weight, output); });
      for (int64_t row = 0; row < params.n_rows; ++row) {
        const Bf16* x = params.x + row * params.x_stride;
        const float sum =
            arithmetic == Arithmetic::kExact ? ExactSum(x, weights) : Sum(x, weights, has_min);
        const int64_t at = row * params.out_stride + output;
        if (params.out != nullptr) params.out[at] = ToBf16(sum);
        if (params.out_f32 != nullptr) params.out_f32[at] = sum;
      }
    }
  });
}

}  // namespace sluice::ops::block_linear::ref
