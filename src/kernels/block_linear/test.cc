#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "kernels/block_linear/op.h"
#include "kernels/harness/samples_test_impl.h"
#include "kernels/simd/flush_denormals.h"
#include "tensor/block_decode.h"

namespace sluice::ops::block_linear {
namespace {

using harness::BytesOf;
using harness::ExpectRowsAreIndependent;
using harness::kBothArithmetics;
using harness::Samples;
using harness::StoredMatrix;

constexpr MatrixFormat kFormats[] = {MatrixFormat::kQ4_0, MatrixFormat::kQ4_1, MatrixFormat::kQ5_0,
                                     MatrixFormat::kQ5_1, MatrixFormat::kQ8_0, MatrixFormat::kQ4K,
                                     MatrixFormat::kQ5K,  MatrixFormat::kQ6K};

// One row of a weight in its parts: codes, and by group scales and minima.
struct Parts {
  std::vector<int8_t> codes;
  std::vector<float> scales;
  std::vector<float> mins;
  int64_t group = 0;
  bool has_min = false;
};

Parts PartsOf(const Matrix& weight, int64_t row) {
  const BlockShape shape = ShapeOf(weight.format);
  const int64_t n_blocks = weight.n_in / shape.n_values;
  const int64_t n_groups = shape.n_values / shape.group;
  Parts parts{.group = shape.group, .has_min = shape.has_min};
  parts.codes.resize(static_cast<size_t>(weight.n_in));
  parts.scales.resize(static_cast<size_t>(n_blocks * n_groups));
  parts.mins.resize(parts.scales.size());
  const auto* bytes = static_cast<const uint8_t*>(weight.data) + row * RowBytesOf(weight);
  for (int64_t block = 0; block < n_blocks; ++block) {
    WithBlockFormat(weight.format, [&](auto tag) {
      DecodeCodes<tag.kFormat>(bytes + block * shape.n_bytes,
                               parts.codes.data() + block * shape.n_values);
      DecodeScales<tag.kFormat>(bytes + block * shape.n_bytes,
                                parts.scales.data() + block * n_groups,
                                parts.mins.data() + block * n_groups);
    });
  }
  return parts;
}

// One output as op.h words it.
float Ordered(const Bf16* x, const Parts& w) {
  const simd::FlushDenormals flush(Arithmetic::kFloat32);
  float sum = 0;
  for (size_t group = 0; group < w.scales.size(); ++group) {
    float s = 0;
    float t = 0;
    for (int64_t pair = 0; pair < w.group; pair += 2) {
      for (const int64_t k : {pair + 1, pair}) {
        const auto at = static_cast<int64_t>(group) * w.group + k;
        const float input = ToFloat(x[at]);
        const float product = input * static_cast<float>(w.codes[static_cast<size_t>(at)]);
        s = s + product;
        t = t + input;
      }
    }
    const float scaled = w.scales[group] * s;
    sum = sum + scaled;
    if (!w.has_min) continue;
    const float shifted = w.mins[group] * t;
    sum = sum + shifted;
  }
  return sum;
}

// From the decoded weights, which are rounded once or twice themselves.
double FromValues(const Bf16* x, const std::vector<float>& weights, double& magnitude) {
  double sum = 0;
  magnitude = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    const double product = double{ToFloat(x[i])} * double{weights[i]};
    sum += product;
    magnitude += std::abs(product);
  }
  return sum;
}

std::vector<float> RunToFloat(const Matrix& weight,
                              const std::vector<Bf16>& x,
                              Arithmetic arithmetic) {
  ThreadTeam team(1);
  Stream stream{.team = team, .arithmetic = arithmetic};
  const int64_t n_rows = static_cast<int64_t>(x.size()) / weight.n_in;
  std::vector<float> out(static_cast<size_t>(n_rows * weight.n_out));
  block_linear::Run({.x = x.data(),
                     .x_stride = weight.n_in,
                     .n_rows = n_rows,
                     .weight = weight,
                     .out_f32 = out.data(),
                     .out_stride = weight.n_out},
                    stream);
  return out;
}

struct Shape {
  int64_t n_rows;
  int64_t n_out;
  int64_t n_in;  // a multiple of 256, or of 32 for formats with blocks of 32
};

// Tiles of 16 outputs, runs of 8 tiles, groups of 64 rows and pieces of inputs that are cut, full
// or just passed.
constexpr Shape kShapes[] = {{1, 1, 32},     {1, 16, 256},  {2, 17, 96},
                             {3, 40, 512},   {5, 129, 64},  {33, 15, 256},
                             {66, 18, 1024}, {1, 3, 33024}, {32, 33, 768}};

class BlockLinear : public testing::TestWithParam<MatrixFormat> {};

TEST_P(BlockLinear, EachOutputIsTheSumOfItsGroupsInOrder) {
  for (const Shape& shape : kShapes) {
    if (shape.n_in % ShapeOf(GetParam()).n_values != 0) continue;
    Samples samples(static_cast<uint64_t>(shape.n_in));
    const StoredMatrix weight = samples.Weight(GetParam(), shape.n_out, shape.n_in);
    const std::vector<Bf16> x = samples.Bf16s(shape.n_rows * shape.n_in);
    const std::vector<float> got = RunToFloat(weight.matrix, x, Arithmetic::kFloat32);
    for (int64_t o = 0; o < shape.n_out; ++o) {
      const Parts parts = PartsOf(weight.matrix, o);
      for (int64_t row = 0; row < shape.n_rows; ++row) {
        const float want = Ordered(x.data() + row * shape.n_in, parts);
        const float value = got[static_cast<size_t>(row * shape.n_out + o)];
        ASSERT_EQ(std::bit_cast<uint32_t>(value), std::bit_cast<uint32_t>(want))
            << shape.n_in << " row " << row << " output " << o;
      }
    }
  }
}

// The order is one of sums of the values that tensor/block_format.h gives, whatever it is.
//
// Exact: a value of the weights is rounded up to twice, each by half a unit of 2^-24. Float32: a
// term is rounded in one of at most 16 additions of its group's chain (32 inputs in order: at most
// 32), in two of its group's products, and in at most two per group of the outer sum.
TEST_P(BlockLinear, SumsAreThoseOfTheValuesOfTheWeight) {
  constexpr int64_t kRows = 3;
  constexpr int64_t kIn = 1024;
  constexpr int64_t kOut = 37;
  Samples samples(5);
  const StoredMatrix weight = samples.Weight(GetParam(), kOut, kIn);
  const std::vector<Bf16> x = samples.Bf16s(kRows * kIn);
  const std::vector<float> exact = RunToFloat(weight.matrix, x, Arithmetic::kExact);
  const std::vector<float> float32 = RunToFloat(weight.matrix, x, Arithmetic::kFloat32);
  const int64_t group = ShapeOf(GetParam()).group;
  std::vector<float> weights(kIn);
  for (int64_t o = 0; o < kOut; ++o) {
    DecodeMatrixRow(weight.matrix, o, weights.data());
    const Parts parts = PartsOf(weight.matrix, o);
    for (int64_t row = 0; row < kRows; ++row) {
      double magnitude = 0;
      const double want = FromValues(x.data() + row * kIn, weights, magnitude);
      // With a min the two parts of a value may cancel: what is rounded is as large as they are.
      double parts_magnitude = 0;
      for (int64_t k = 0; k < kIn; ++k) {
        const auto g = static_cast<size_t>(k / group);
        parts_magnitude +=
            std::abs(double{ToFloat(x[static_cast<size_t>(row * kIn + k)])}) *
            (std::abs(double{parts.scales[g]} * parts.codes[static_cast<size_t>(k)]) +
             std::abs(double{parts.mins[g]}));
      }
      const auto at = static_cast<size_t>(row * kOut + o);
      EXPECT_NEAR(exact[at], want, 3 * 0x1p-24 * parts_magnitude) << row << ' ' << o;
      const double n_roundings = static_cast<double>(group + 2 + 2 * kIn / group);
      EXPECT_NEAR(float32[at], want, (n_roundings + 3) * 0x1p-24 * parts_magnitude) << row;
      EXPECT_GT(magnitude, 0);
    }
  }
}

TEST_P(BlockLinear, RowsAreIndependentOfBatchAndThreads) {
  constexpr int64_t kRows = 69;  // more than share one decoding
  constexpr int64_t kIn = 512;
  constexpr int64_t kOut = 150;
  Samples samples(6);
  const StoredMatrix weight = samples.Weight(GetParam(), kOut, kIn);
  const std::vector<Bf16> x = samples.Bf16s(kRows * kIn);
  for (const Arithmetic arithmetic : kBothArithmetics) {
    ExpectRowsAreIndependent(kRows, arithmetic, [&](int64_t first, int64_t n, Stream& stream) {
      std::vector<float> out(static_cast<size_t>(n * kOut));
      block_linear::Run({.x = x.data() + first * kIn,
                         .x_stride = kIn,
                         .n_rows = n,
                         .weight = weight.matrix,
                         .out_f32 = out.data(),
                         .out_stride = kOut},
                        stream);
      return BytesOf(out);
    });
  }
}

TEST_P(BlockLinear, OutputsAreRoundedToBf16AndRowsMayLieApart) {
  constexpr int64_t kIn = 256;
  constexpr int64_t kOut = 20;
  constexpr int64_t kInStride = kIn + 3;
  constexpr int64_t kOutStride = kOut + 5;
  Samples samples(7);
  const StoredMatrix weight = samples.Weight(GetParam(), kOut, kIn);
  const std::vector<Bf16> x = samples.Bf16s(2 * kInStride);
  std::vector<Bf16> apart = {x.begin(), x.begin() + kIn};
  apart.insert(apart.end(), x.begin() + kInStride, x.begin() + kInStride + kIn);
  for (const Arithmetic arithmetic : kBothArithmetics) {
    const std::vector<float> want = RunToFloat(weight.matrix, apart, arithmetic);
    ThreadTeam team(2);
    Stream stream{.team = team, .arithmetic = arithmetic};
    std::vector<Bf16> out(2 * kOutStride, ToBf16(7));
    block_linear::Run({.x = x.data(),
                       .x_stride = kInStride,
                       .n_rows = 2,
                       .weight = weight.matrix,
                       .out = out.data(),
                       .out_stride = kOutStride},
                      stream);
    for (int64_t row = 0; row < 2; ++row) {
      for (int64_t o = 0; o < kOutStride; ++o) {
        const Bf16 expected =
            o < kOut ? ToBf16(want[static_cast<size_t>(row * kOut + o)]) : ToBf16(7);
        ASSERT_EQ(out[static_cast<size_t>(row * kOutStride + o)], expected) << row << ' ' << o;
      }
    }
  }
}

// Inputs of 2^-120 times scales and codes up to 127 leave the range of normal floats; all
// of 0, 1 and many rows must then flush at the same places.
TEST_P(BlockLinear, DenormalsAreFlushedWhereOpSaysSo) {
  constexpr int64_t kIn = 256;
  constexpr int64_t kOut = 16;
  Samples samples(8);
  StoredMatrix weight = samples.Weight(GetParam(), kOut, kIn);
  std::vector<Bf16> x = samples.Bf16s(3 * kIn, 0x1p-120F);
  const std::vector<float> got = RunToFloat(weight.matrix, x, Arithmetic::kFloat32);
  for (int64_t o = 0; o < kOut; ++o) {
    const Parts parts = PartsOf(weight.matrix, o);
    for (int64_t row = 0; row < 3; ++row) {
      ASSERT_EQ(got[static_cast<size_t>(row * kOut + o)], Ordered(x.data() + row * kIn, parts));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, BlockLinear, testing::ValuesIn(kFormats), [](const auto& format) {
  return std::string(NameOf(format.param));
});

}  // namespace
}  // namespace sluice::ops::block_linear
