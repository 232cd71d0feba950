#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "kernels/block_linear/op.h"
#include "kernels/harness/samples_test_impl.h"
#include "kernels/simd/flush_denormals.h"
#include "tensor/block_decode.h"
#include "tensor/packed.h"

namespace sluice::ops::block_linear {
namespace {

using harness::BytesOf;
using harness::ExpectRowsAreIndependent;
using harness::kBothArithmetics;
using harness::Samples;
using harness::StoredMatrix;
using harness::UpTo;

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

struct RunAs {
  Arithmetic arithmetic = Arithmetic::kFloat32;
  Isa isa = Isa::kRef;
  int32_t n_threads = 1;
};

std::vector<float> RunToFloat(const Matrix& weight, const std::vector<Bf16>& x, const RunAs& as) {
  ThreadTeam team(as.n_threads);
  Stream stream{.team = team, .arithmetic = as.arithmetic, .isas = UpTo(as.isa)};
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

std::vector<Isa> IsasHere() {
  std::vector<Isa> isas;
  for (const Isa isa : block_linear::Isas()) {
    if (IsasOfMachine().Has(isa)) isas.push_back(isa);
  }
  return isas;
}

bool HasPackedForm(MatrixFormat format) { return PackedShapeOf(format).n_rows > 0; }

// A weight in rows and, where its format has that form, packed; for which codes of -128 are put
// away.
struct BothLayouts {
  StoredMatrix rows;
  StoredMatrix packed;

  BothLayouts(Samples& samples, MatrixFormat format, int64_t n_out, int64_t n_in)
      : rows(samples.Weight(format, n_out, n_in)) {
    if (!HasPackedForm(format)) return;
    const auto block_bytes = static_cast<size_t>(ShapeOf(format).n_bytes);
    for (size_t at = 0; at < rows.data.size() && format == MatrixFormat::kQ8_0; ++at) {
      if (at % block_bytes > 1 && rows.data[at] == 0x80) rows.data[at] = 0x81;
    }
    EXPECT_TRUE(CanPack(rows.matrix));
    packed = harness::PackedFrom(rows.matrix);
  }
  std::vector<Matrix> All() const {
    if (packed.data.empty()) return {rows.matrix};
    return {rows.matrix, packed.matrix};
  }
};

// Some of 30 deviations, and rows of which every product is just a normal number, or denormal.
std::vector<Bf16> HardInputs(int64_t n_rows, int64_t n_in, Samples& samples) {
  std::vector<Bf16> x = samples.Bf16s(n_rows * n_in);
  for (int64_t row = 0; row < n_rows; ++row) {
    const float scale = row % 3 == 2 ? 0x1p-126F : 1.0F;
    for (int64_t i = 0; i < n_in; ++i) {
      Bf16& value = x[static_cast<size_t>(row * n_in + i)];
      value = ToBf16(ToFloat(value) * scale * (samples.Below(100) == 0 ? 30.0F : 1.0F));
    }
  }
  return x;
}

struct Shape {
  int64_t n_rows;
  int64_t n_out;
  int64_t n_in;  // a multiple of 256, or of 32 for formats with blocks of 32
};

// Tiles of 16 outputs, stripes of 32, runs of 8 tiles, groups of 10 and 64 rows, blocks of rows and
// pieces of inputs that are cut, full or just passed.
constexpr Shape kShapes[] = {
    {1, 1, 32},   {1, 16, 256},  {2, 17, 96},    {3, 40, 512},  {4, 33, 544},   {5, 129, 64},
    {6, 31, 32},  {7, 64, 256},  {8, 65, 96},    {9, 32, 512},  {10, 48, 256},  {11, 30, 288},
    {13, 70, 64}, {33, 15, 256}, {66, 18, 1024}, {1, 3, 33024}, {18, 2, 33024}, {32, 33, 768}};

class BlockLinear : public testing::TestWithParam<MatrixFormat> {};

// As op.h words it: whichever layout, variant and number of threads.
void ExpectOrdered(MatrixFormat format, const Shape& shape) {
  Samples samples(static_cast<uint64_t>(shape.n_in + shape.n_rows));
  const BothLayouts weight(samples, format, shape.n_out, shape.n_in);
  const std::vector<Bf16> x = HardInputs(shape.n_rows, shape.n_in, samples);
  std::vector<float> want(static_cast<size_t>(shape.n_rows * shape.n_out));
  for (int64_t o = 0; o < shape.n_out; ++o) {
    const Parts parts = PartsOf(weight.rows.matrix, o);
    for (int64_t row = 0; row < shape.n_rows; ++row) {
      want[static_cast<size_t>(row * shape.n_out + o)] =
          Ordered(x.data() + row * shape.n_in, parts);
    }
  }
  for (const Matrix& matrix : weight.All()) {
    for (const Isa isa : IsasHere()) {
      for (const int32_t n_threads : {1, 2}) {
        const std::vector<float> got = RunToFloat(matrix, x, {.isa = isa, .n_threads = n_threads});
        ASSERT_EQ(BytesOf(got), BytesOf(want))
            << NameOf(isa) << ' ' << shape.n_rows << " rows, " << shape.n_out << " x " << shape.n_in
            << ", packed " << (matrix.layout == MatrixLayout::kPacked) << ", threads " << n_threads;
      }
    }
  }
}

TEST_P(BlockLinear, EachOutputIsTheSumOfItsGroupsInOrder) {
  for (const Shape& shape : kShapes) {
    if (shape.n_in % ShapeOf(GetParam()).n_values == 0) ExpectOrdered(GetParam(), shape);
  }
}

// Codes of -128 stay in their rows.
TEST_P(BlockLinear, EveryCodeCounts) {
  Samples samples(4);
  const StoredMatrix weight = samples.Weight(GetParam(), 48, 512);
  const std::vector<Bf16> x = samples.Bf16s(5 * 512);
  for (const Isa isa : IsasHere()) {
    const std::vector<float> got = RunToFloat(weight.matrix, x, {.isa = isa});
    for (int64_t o = 0; o < 48; ++o) {
      const Parts parts = PartsOf(weight.matrix, o);
      for (int64_t row = 0; row < 5; ++row) {
        ASSERT_EQ(got[static_cast<size_t>(row * 48 + o)], Ordered(x.data() + row * 512, parts))
            << NameOf(isa) << " row " << row << " output " << o;
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
  const std::vector<float> exact = RunToFloat(weight.matrix, x, {.arithmetic = Arithmetic::kExact});
  const std::vector<float> float32 = RunToFloat(weight.matrix, x, {});
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

TEST_P(BlockLinear, ExactSumsDoNotDependOnTheLayout) {
  Samples samples(9);
  const BothLayouts weight(samples, GetParam(), 40, 512);
  const std::vector<Bf16> x = samples.Bf16s(3 * 512);
  const RunAs exact = {.arithmetic = Arithmetic::kExact};
  const std::vector<float> want = RunToFloat(weight.rows.matrix, x, exact);
  for (const Matrix& matrix : weight.All()) EXPECT_EQ(RunToFloat(matrix, x, exact), want);
}

TEST_P(BlockLinear, RowsAreIndependentOfBatchAndThreads) {
  constexpr int64_t kRows = 69;  // more than share one decoding
  constexpr int64_t kIn = 512;
  constexpr int64_t kOut = 150;
  Samples samples(6);
  const BothLayouts weight(samples, GetParam(), kOut, kIn);
  const std::vector<Bf16> x = samples.Bf16s(kRows * kIn);
  const auto expect = [&](const Matrix& matrix, Arithmetic arithmetic, Isa isa) {
    ExpectRowsAreIndependent(kRows, arithmetic, [&](int64_t first, int64_t n, Stream& stream) {
      std::vector<float> out(static_cast<size_t>(n * kOut));
      Stream forced{.team = stream.team, .arithmetic = arithmetic, .isas = UpTo(isa)};
      block_linear::Run({.x = x.data() + first * kIn,
                         .x_stride = kIn,
                         .n_rows = n,
                         .weight = matrix,
                         .out_f32 = out.data(),
                         .out_stride = kOut},
                        forced);
      return BytesOf(out);
    });
  };
  expect(weight.rows.matrix, Arithmetic::kExact, Isa::kRef);
  for (const Matrix& matrix : weight.All()) {
    for (const Isa isa : IsasHere()) expect(matrix, Arithmetic::kFloat32, isa);
  }
}

// x begins anywhere, too.
TEST_P(BlockLinear, OutputsAreRoundedToBf16AndRowsMayLieApart) {
  constexpr int64_t kIn = 256;
  constexpr int64_t kOut = 52;
  constexpr int64_t kRows = 12;
  constexpr int64_t kInStride = kIn + 3;
  constexpr int64_t kOutStride = kOut + 5;
  Samples samples(7);
  const BothLayouts weight(samples, GetParam(), kOut, kIn);
  const std::vector<Bf16> x = samples.Bf16s(1 + kRows * kInStride);
  std::vector<Bf16> apart;
  for (int64_t row = 0; row < kRows; ++row) {
    const auto begin = x.begin() + 1 + row * kInStride;
    apart.insert(apart.end(), begin, begin + kIn);
  }
  const auto expect = [&](const Matrix& matrix, Arithmetic arithmetic, Isa isa) {
    const std::vector<float> want =
        RunToFloat(weight.rows.matrix, apart, {.arithmetic = arithmetic});
    ThreadTeam team(2);
    Stream stream{.team = team, .arithmetic = arithmetic, .isas = UpTo(isa)};
    std::vector<Bf16> out(kRows * kOutStride, ToBf16(7));
    block_linear::Run({.x = x.data() + 1,
                       .x_stride = kInStride,
                       .n_rows = kRows,
                       .weight = matrix,
                       .out = out.data(),
                       .out_stride = kOutStride},
                      stream);
    for (int64_t row = 0; row < kRows; ++row) {
      for (int64_t o = 0; o < kOutStride; ++o) {
        const Bf16 expected =
            o < kOut ? ToBf16(want[static_cast<size_t>(row * kOut + o)]) : ToBf16(7);
        ASSERT_EQ(out[static_cast<size_t>(row * kOutStride + o)], expected)
            << NameOf(isa) << ' ' << row << ' ' << o;
      }
    }
  };
  for (const Matrix& matrix : weight.All()) {
    expect(matrix, Arithmetic::kExact, Isa::kRef);
    for (const Isa isa : IsasHere()) expect(matrix, Arithmetic::kFloat32, isa);
  }
}

TEST_P(BlockLinear, TheForcedVariantIsTheOneThatRuns) {
  ThreadTeam team(1);
  Samples samples(10);
  const BothLayouts weight(samples, GetParam(), 64, 256);
  for (const Matrix& matrix : weight.All()) {
    for (const Isa isa : IsasHere()) {
      Stream stream{.team = team, .isas = UpTo(isa)};
      const bool is_packed = matrix.layout == MatrixLayout::kPacked;
      const Isa want = isa == Isa::kAvx512Bf16 && !is_packed ? Isa::kAvx2 : isa;
      EXPECT_EQ(ChosenIsa({.weight = matrix}, stream), want);
      stream.arithmetic = Arithmetic::kExact;
      EXPECT_EQ(ChosenIsa({.weight = matrix}, stream), Isa::kRef);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, BlockLinear, testing::ValuesIn(kFormats), [](const auto& format) {
  return std::string(NameOf(format.param));
});

}  // namespace
}  // namespace sluice::ops::block_linear
