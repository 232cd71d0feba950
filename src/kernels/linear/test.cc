#include <gtest/gtest.h>

#include <cmath>

#include "kernels/harness/samples_test_impl.h"
#include "kernels/linear/op.h"
#include "kernels/quantize/op.h"
#include "tensor/golden_file_test_impl.h"

namespace sluice::ops::linear {
namespace {

using harness::GoldenTensor;
using harness::kBothArithmetics;
using harness::Samples;
using harness::StoredMatrix;
using harness::Tables;

constexpr MatrixFormat kFormats[] = {MatrixFormat::kBf16, MatrixFormat::kF32, MatrixFormat::kFp8,
                                     MatrixFormat::kFp4, MatrixFormat::kF16};

float Flushed(float x) { return std::fabs(x) < 0x1p-126F ? std::copysign(0.0F, x) : x; }

// One output as op.h words it.
float Chain(const Bf16* x, const std::vector<float>& weights, MatrixFormat format) {
  float sum = 0;
  const auto add = [&](size_t i) {
    const float in = Flushed(ToFloat(x[i]));
    const float weight = Flushed(weights[i]);
    if (format == MatrixFormat::kF32) {
      const float product = Flushed(in * weight);
      sum = Flushed(sum + product);
    } else {
      sum = Flushed(std::fma(in, weight, sum));
    }
  };
  size_t i = 0;
  for (; i + 1 < weights.size(); i += 2) {
    add(i + 1);
    add(i);
  }
  if (i < weights.size()) add(i);
  return sum;
}

float Exact(const Bf16* x, const std::vector<float>& weights) {
  double sum = 0;
  for (size_t i = 0; i < weights.size(); ++i) sum += double{ToFloat(x[i])} * double{weights[i]};
  return static_cast<float>(sum);
}

std::vector<float> RunToFloat(const Matrix& weight,
                              const std::vector<Bf16>& x,
                              Arithmetic arithmetic,
                              int32_t n_threads = 1,
                              const IsaChoice& isas = {}) {
  ThreadTeam team(n_threads);
  Stream stream{.team = team, .arithmetic = arithmetic, .isas = isas};
  const int64_t n_rows = static_cast<int64_t>(x.size()) / weight.n_in;
  std::vector<float> out(static_cast<size_t>(n_rows * weight.n_out));
  linear::Run({.x = x.data(),
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
  int64_t n_in;
};

// Odd counts, panels of 16 outputs and 256 inputs and groups of 256 rows that are cut, full or
// just passed.
constexpr Shape kShapes[] = {{1, 1, 1},    {1, 16, 32},  {3, 17, 33},   {2, 40, 96},
                             {5, 33, 255}, {4, 15, 257}, {257, 18, 64}, {1, 24, 1025}};

void ExpectEachOutputIsItsChain(const Shape& shape, MatrixFormat format) {
  Samples samples(static_cast<uint64_t>(shape.n_in));
  const StoredMatrix weight = samples.Weight(format, shape.n_out, shape.n_in);
  const std::vector<Bf16> x = samples.Bf16s(shape.n_rows * shape.n_in);
  const IsaChoice ref = harness::UpTo(Isa::kRef);
  const std::vector<float> got = RunToFloat(weight.matrix, x, Arithmetic::kFloat32, 1, ref);
  const std::vector<float> exact = RunToFloat(weight.matrix, x, Arithmetic::kExact);
  std::vector<float> weights(static_cast<size_t>(shape.n_in));
  for (int64_t o = 0; o < shape.n_out; ++o) {
    DecodeMatrixRow(weight.matrix, o, weights.data());
    for (int64_t row = 0; row < shape.n_rows; ++row) {
      const Bf16* in = x.data() + row * shape.n_in;
      const auto at = static_cast<size_t>(row * shape.n_out + o);
      ASSERT_EQ(got[at], Chain(in, weights, format))
          << shape.n_in << " row " << row << " output " << o;
      ASSERT_EQ(exact[at], Exact(in, weights)) << shape.n_in << " row " << row << " output " << o;
    }
  }
}

TEST(Linear, EachOutputIsOneChainInPairsTheOddInputFirst) {
  for (const Shape& shape : kShapes) {
    for (const MatrixFormat format : kFormats) {
      if (format == MatrixFormat::kFp4 && shape.n_in % 32 != 0) continue;
      ExpectEachOutputIsItsChain(shape, format);
    }
  }
}

// Inputs of all sorts: bell-shaped with some 30 times as large, zeros of both signs, denormals, and
// such small ones that products and sums are denormal.
std::vector<Bf16> HardInputs(int64_t n, Samples& samples) {
  std::vector<Bf16> x = samples.Bf16s(n);
  for (Bf16& value : x) {
    const int32_t kind = samples.Below(24);
    if (kind == 0) value = ToBf16(ToFloat(value) * 30);
    if (kind == 1) value.bits &= 0x8000;
    if (kind == 2) value.bits &= 0x807F;
    if (kind == 3) value.bits = static_cast<uint16_t>((value.bits & 0x807F) | 0x80);
  }
  return x;
}

// Of about half of the rows every input is so small that every product is denormal or nearly so.
void MakeSomeRowsTiny(std::vector<Bf16>& x, int64_t n_rows, Samples& samples) {
  const int64_t n_in = static_cast<int64_t>(x.size()) / n_rows;
  for (int64_t row = 0; row < n_rows; ++row) {
    if (samples.Below(2) == 0) continue;
    for (int64_t i = 0; i < n_in; ++i) {
      Bf16& value = x[static_cast<size_t>(row * n_in + i)];
      value = ToBf16(ToFloat(value) * 0x1p-124F);
    }
  }
}

// Rows of every group and between groups; outputs and inputs around tiles, stripes and records.
constexpr int64_t kRowCounts[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 18, 19, 25, 64, 100};
constexpr Shape kOutAndIn[] = {{0, 1, 32}, {0, 31, 96}, {0, 64, 256}, {0, 65, 320}, {0, 130, 288}};
constexpr Shape kOddInputs[] = {{0, 1, 1}, {0, 17, 33}, {0, 70, 255}, {0, 66, 257}};

bool HasPackedForm(MatrixFormat format) { return PackedShapeOf(format).n_rows > 0; }

void ExpectVariantsEqual(const std::vector<uint8_t>& want,
                         const Matrix& weight,
                         const std::vector<Bf16>& x) {
  for (const Isa isa : linear::Isas()) {
    const bool is_rows = weight.layout == MatrixLayout::kRows;
    if (!IsasOfMachine().Has(isa) || (isa == Isa::kRef && is_rows)) continue;
    for (const int32_t n_threads : {1, 2}) {
      if (isa == Isa::kRef && n_threads > 1) continue;
      const std::vector<float> got =
          RunToFloat(weight, x, Arithmetic::kFloat32, n_threads, harness::UpTo(isa));
      ASSERT_EQ(harness::BytesOf(got), want)
          << NameOf(isa) << ' ' << NameOf(weight.format) << ' ' << x.size() / weight.n_in
          << " rows, " << weight.n_out << " x " << weight.n_in << ", packed " << !is_rows
          << ", threads " << n_threads;
    }
  }
}

// In both layouts what ref makes of rows.
void ExpectVariantsEqualRef(const Shape& shape, MatrixFormat format) {
  Samples samples(static_cast<uint64_t>(shape.n_in));
  const StoredMatrix weight = samples.Weight(format, shape.n_out, shape.n_in);
  StoredMatrix packed;
  if (HasPackedForm(format)) packed = harness::PackedFrom(weight.matrix);
  for (const int64_t n_rows : kRowCounts) {
    std::vector<Bf16> x = HardInputs(n_rows * shape.n_in, samples);
    MakeSomeRowsTiny(x, n_rows, samples);
    const IsaChoice ref = harness::UpTo(Isa::kRef);
    const std::vector<uint8_t> want =
        harness::BytesOf(RunToFloat(weight.matrix, x, Arithmetic::kFloat32, 1, ref));
    ExpectVariantsEqual(want, weight.matrix, x);
    if (HasPackedForm(format)) ExpectVariantsEqual(want, packed.matrix, x);
  }
}

TEST(Linear, EveryVariantEqualsRefToTheBit) {
  for (const MatrixFormat format : kFormats) {
    for (const Shape& shape : kOutAndIn) ExpectVariantsEqualRef(shape, format);
    if (format == MatrixFormat::kFp4) continue;
    for (const Shape& shape : kOddInputs) ExpectVariantsEqualRef(shape, format);
  }
}

TEST(Linear, RowsOfInputsMayBeginAnywhere) {
  constexpr int64_t kRows = 6;
  constexpr int64_t kIn = 96;
  constexpr int64_t kOut = 40;
  constexpr int64_t kStride = kIn + 1;
  for (const MatrixFormat format : kFormats) {
    Samples samples(13);
    const StoredMatrix weight = samples.Weight(format, kOut, kIn);
    StoredMatrix packed;
    if (HasPackedForm(format)) packed = harness::PackedFrom(weight.matrix);
    const std::vector<Bf16> wide = samples.Bf16s(kRows * kStride + 1);
    std::vector<Bf16> x;
    for (int64_t row = 0; row < kRows; ++row) {
      const auto begin = wide.begin() + 1 + row * kStride;
      x.insert(x.end(), begin, begin + kIn);
    }
    const IsaChoice ref = harness::UpTo(Isa::kRef);
    const std::vector<float> want = RunToFloat(weight.matrix, x, Arithmetic::kFloat32, 1, ref);
    ThreadTeam team(1);
    for (const Isa isa : linear::Isas()) {
      if (!IsasOfMachine().Has(isa)) continue;
      for (const Matrix& matrix : {weight.matrix, packed.matrix}) {
        if (matrix.data == nullptr) continue;
        Stream stream{.team = team, .isas = harness::UpTo(isa)};
        std::vector<float> got(want.size());
        linear::Run({.x = wide.data() + 1,
                     .x_stride = kStride,
                     .n_rows = kRows,
                     .weight = matrix,
                     .out_f32 = got.data(),
                     .out_stride = kOut},
                    stream);
        EXPECT_EQ(got, want) << NameOf(isa) << ' ' << NameOf(format);
      }
    }
  }
}

// Scales of the whole range that packing takes; -0 among the codes.
TEST(Linear, PackedEqualsRowsToTheBitWithAnyScale) {
  constexpr int64_t kRows = 9;
  for (const MatrixFormat format : {MatrixFormat::kFp8, MatrixFormat::kFp4}) {
    Samples samples(11);
    StoredMatrix weight = samples.Weight(format, 96, 160);
    for (uint8_t& scale : weight.scales) {
      scale = static_cast<uint8_t>(kPackedExponentLeast + samples.Below(127));
    }
    weight.data[5] = 0x80;
    weight.data[6] = 0x88;
    ASSERT_TRUE(CanPack(weight.matrix));
    const StoredMatrix packed = harness::PackedFrom(weight.matrix);
    std::vector<Bf16> x = HardInputs(kRows * 160, samples);
    MakeSomeRowsTiny(x, kRows, samples);
    const IsaChoice ref = harness::UpTo(Isa::kRef);
    const std::vector<uint8_t> want =
        harness::BytesOf(RunToFloat(weight.matrix, x, Arithmetic::kFloat32, 1, ref));
    for (const Isa isa : linear::Isas()) {
      if (!IsasOfMachine().Has(isa)) continue;
      const std::vector<float> got =
          RunToFloat(packed.matrix, x, Arithmetic::kFloat32, 1, harness::UpTo(isa));
      EXPECT_EQ(harness::BytesOf(got), want) << NameOf(isa) << ' ' << NameOf(format);
    }
  }
}

// The product alone is denormal; what matters is the sum.
TEST(Linear, AProductBelowTheNormalNumbersCounts) {
  const std::vector<Bf16> weights = {ToBf16(0x1p-63F), ToBf16(1)};
  const std::vector<Bf16> x = {ToBf16(0x1p-64F), ToBf16(0x1p-126F)};
  const Matrix weight{.format = MatrixFormat::kBf16, .data = weights.data(), .n_out = 1, .n_in = 2};
  const StoredMatrix packed = harness::PackedFrom(weight);
  for (const Isa isa : linear::Isas()) {
    if (!IsasOfMachine().Has(isa)) continue;
    for (const Matrix& matrix : {weight, packed.matrix}) {
      EXPECT_EQ(RunToFloat(matrix, x, Arithmetic::kFloat32, 1, harness::UpTo(isa))[0],
                0x1p-126F + 0x1p-127F)
          << NameOf(isa);
    }
  }
}

TEST(Linear, TheForcedVariantIsTheOneThatRuns) {
  ThreadTeam team(1);
  Samples samples(12);
  for (const MatrixFormat format : kFormats) {
    const StoredMatrix weight = samples.Weight(format, 64, 32);
    for (const Isa isa : linear::Isas()) {
      if (!IsasOfMachine().Has(isa)) continue;
      Stream stream{.team = team, .isas = harness::UpTo(isa)};
      const Isa of_rows = ChosenIsa({.weight = weight.matrix}, stream);
      if (isa == Isa::kAvx512Bf16) {
        EXPECT_LT(of_rows, isa);  // it takes packed matrices alone
      } else {
        EXPECT_EQ(of_rows, isa);
      }
      if (!HasPackedForm(format)) continue;
      const StoredMatrix packed = harness::PackedFrom(weight.matrix);
      EXPECT_EQ(ChosenIsa({.weight = packed.matrix}, stream), isa);
      stream.arithmetic = Arithmetic::kExact;
      EXPECT_EQ(ChosenIsa({.weight = packed.matrix}, stream), Isa::kRef);
    }
  }
}

void ExpectGolden(const std::string& name, MatrixFormat format, Arithmetic arithmetic) {
  const GoldenTensor& in = Tables()["linear.in"];
  const GoldenTensor& want = Tables()["linear." + name + "_out"];
  ThreadTeam team(2);
  Stream stream{.team = team, .arithmetic = arithmetic};
  std::vector<Bf16> x(static_cast<size_t>(in.n_values()));
  quantize::Run({.x = in.as<Bf16>(),
                 .x_stride = 96,
                 .n_rows = in.shape[0],
                 .n_columns = 96,
                 .values = x.data()},
                stream);
  std::vector<Bf16> out(static_cast<size_t>(want.n_values()));
  linear::Run({.x = x.data(),
               .x_stride = 96,
               .n_rows = in.shape[0],
               .weight = {.format = format,
                          .data = Tables()["linear." + name + "_weight"].bytes.data(),
                          .scales = Tables()["linear." + name + "_scale"].bytes.data(),
                          .n_out = 40,
                          .n_in = 96},
               .out = out.data(),
               .out_stride = 40},
              stream);
  for (size_t i = 0; i < out.size(); ++i) {
    EXPECT_LE(harness::Steps(out[i], want.as<Bf16>()[i]), 1) << name << ' ' << i;
    if (arithmetic == Arithmetic::kExact) {
      EXPECT_EQ(out[i], want.as<Bf16>()[i]) << name << ' ' << i;
    }
  }
}

TEST(Linear, QuantizedProductsAreThoseOfTheReference) {
  for (const Arithmetic arithmetic : kBothArithmetics) {
    ExpectGolden("fp8", MatrixFormat::kFp8, arithmetic);
    ExpectGolden("fp4", MatrixFormat::kFp4, arithmetic);
  }
}

TEST(Linear, RowsAreIndependentOfBatchAndThreads) {
  constexpr int64_t kRows = 7;
  constexpr int64_t kOut = 50;
  constexpr int64_t kIn = 320;
  for (const Arithmetic arithmetic : kBothArithmetics) {
    for (const MatrixFormat format : kFormats) {
      Samples samples(5);
      const StoredMatrix weight = samples.Weight(format, kOut, kIn);
      const std::vector<Bf16> x = samples.Bf16s(kRows * kIn);
      harness::ExpectRowsAreIndependent(kRows, arithmetic,
                                        [&](int64_t first, int64_t n, Stream& stream) {
                                          std::vector<float> out(static_cast<size_t>(n * kOut));
                                          linear::Run({.x = x.data() + first * kIn,
                                                       .x_stride = kIn,
                                                       .n_rows = n,
                                                       .weight = weight.matrix,
                                                       .out_f32 = out.data(),
                                                       .out_stride = kOut},
                                                      stream);
                                          return harness::BytesOf(out);
                                        });
    }
  }
}

TEST(Linear, StridesLeaveTheRestAlone) {
  Samples samples(6);
  const StoredMatrix weight = samples.Weight(MatrixFormat::kBf16, 20, 40);
  const std::vector<Bf16> x = samples.Bf16s(3 * 50);
  ThreadTeam team(1);
  Stream stream{.team = team};
  const Bf16 untouched = ToBf16(77);
  std::vector<Bf16> out(3 * 30, untouched);
  std::vector<float> out_f32(3 * 30, 77);
  linear::Run({.x = x.data(),
               .x_stride = 50,
               .n_rows = 3,
               .weight = weight.matrix,
               .out = out.data(),
               .out_f32 = out_f32.data(),
               .out_stride = 30},
              stream);
  std::vector<float> weights(40);
  for (size_t row = 0; row < 3; ++row) {
    for (size_t o = 0; o < 30; ++o) {
      if (o >= 20) {
        EXPECT_EQ(out[row * 30 + o], untouched);
        continue;
      }
      DecodeMatrixRow(weight.matrix, static_cast<int64_t>(o), weights.data());
      const float want = Chain(x.data() + row * 50, weights, MatrixFormat::kBf16);
      EXPECT_EQ(out_f32[row * 30 + o], want);
      EXPECT_EQ(out[row * 30 + o], ToBf16(want));
    }
  }
}

// Relative error 1.5 % after two projections and still plausible text (spec model.md §7.3, 33).
TEST(Linear, AccumulatesInFloatNotInBf16) {
  const std::vector<Bf16> ones(4096, ToBf16(1));
  const Matrix weight{.format = MatrixFormat::kBf16, .data = ones.data(), .n_out = 1, .n_in = 4096};
  for (const Arithmetic arithmetic : kBothArithmetics) {
    EXPECT_EQ(RunToFloat(weight, ones, arithmetic)[0], 4096.0F);
  }
}

TEST(Linear, ProductsWithAnF32WeightAreRoundedBeforeTheyAreAdded) {
  // 257/256 * (1 + 2^-23) needs 32 bits; fused, its rest survives the cancellation.
  const float weights[] = {1.0F + 0x1p-23F, -(1.0F + 0x1p-7F)};
  const std::vector<Bf16> x = {ToBf16(1.0F + 0x1p-7F), ToBf16(1.0F)};
  const Matrix weight{.format = MatrixFormat::kF32, .data = weights, .n_out = 1, .n_in = 2};
  const float product = ToFloat(x[0]) * weights[0];
  EXPECT_EQ(RunToFloat(weight, x, Arithmetic::kFloat32)[0], weights[1] + product);
  EXPECT_NE(std::fma(ToFloat(x[0]), weights[0], weights[1]), weights[1] + product);
}

TEST(Linear, DenormalsAreFlushedInFloat32AndKeptInExact) {
  const float weights[] = {0x1p-100F};
  const std::vector<Bf16> x = {ToBf16(0x1p-40F)};
  const Matrix weight{.format = MatrixFormat::kF32, .data = weights, .n_out = 1, .n_in = 1};
  for (const int32_t n_threads : {1, 2}) {
    EXPECT_EQ(RunToFloat(weight, x, Arithmetic::kFloat32, n_threads)[0], 0.0F);
    EXPECT_EQ(RunToFloat(weight, x, Arithmetic::kExact, n_threads)[0], 0x1p-140F);
  }
}

// Its scale alone is a denormal, the weight is not.
TEST(Linear, TheSmallestScaleIsNotFlushed) {
  const uint8_t codes[] = {0x7E};  // 448
  const uint8_t scales[] = {0};    // 2^-127
  const std::vector<Bf16> x = {ToBf16(0x1p20F)};
  const Matrix weight{
      .format = MatrixFormat::kFp8, .data = codes, .scales = scales, .n_out = 1, .n_in = 1};
  for (const Arithmetic arithmetic : kBothArithmetics) {
    EXPECT_EQ(RunToFloat(weight, x, arithmetic)[0], 448 * 0x1p-107F);
  }
}

}  // namespace
}  // namespace sluice::ops::linear
