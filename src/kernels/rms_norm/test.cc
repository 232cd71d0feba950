#include <gtest/gtest.h>

#include <cmath>

#include "kernels/harness/samples_test_impl.h"
#include "kernels/rms_norm/op.h"

namespace sluice::ops::rms_norm {
namespace {

using harness::kBothArithmetics;
using harness::Samples;

std::vector<Bf16> Normalize(const std::vector<Bf16>& x,
                            const std::vector<Bf16>& weight,
                            float eps,
                            Arithmetic arithmetic) {
  ThreadTeam team(2);
  Stream stream{.team = team, .arithmetic = arithmetic};
  std::vector<Bf16> out(x.size());
  const auto n_columns = static_cast<int64_t>(weight.size());
  rms_norm::Run({.x = x.data(),
                 .x_stride = n_columns,
                 .n_rows = static_cast<int64_t>(x.size()) / n_columns,
                 .n_columns = static_cast<int32_t>(n_columns),
                 .weight = weight.data(),
                 .eps = eps,
                 .out = out.data(),
                 .out_stride = n_columns},
                stream);
  return out;
}

// rsqrt(mean(x^2) + 1e-20) in the arithmetic of the goldens.
float InverseNorm(const std::vector<Bf16>& x) {
  double squares = 0;
  for (const Bf16 value : x) squares += double{ToFloat(value)} * double{ToFloat(value)};
  const auto mean = static_cast<float>(squares / static_cast<double>(x.size()));
  return static_cast<float>(1 / std::sqrt(double{mean + 1e-20F}));
}

TEST(RmsNorm, IsWithinABf16StepOfTheFormulaAndEqualsItInExact) {
  Samples samples(1);
  for (const int64_t n : {1, 5, 16, 31, 64, 257, 1280}) {
    const std::vector<Bf16> x = samples.Bf16s(n, 3);
    const std::vector<Bf16> weight = samples.Bf16s(n, 0.2F, 1);
    const float inverse = InverseNorm(x);
    for (const Arithmetic arithmetic : kBothArithmetics) {
      const std::vector<Bf16> got = Normalize(x, weight, 1e-20F, arithmetic);
      for (size_t i = 0; i < got.size(); ++i) {
        const float normalized = ToFloat(x[i]) * inverse;
        const Bf16 want = ToBf16(ToFloat(weight[i]) * normalized);
        ASSERT_LE(harness::Steps(got[i], want), arithmetic == Arithmetic::kExact ? 0 : 1) << n;
      }
    }
  }
}

TEST(RmsNorm, Float32RowsThatAreBf16ValuesGiveTheSameBits) {
  Samples samples(7);
  const std::vector<Bf16> x = samples.Bf16s(3 * 77);
  const std::vector<Bf16> weight = samples.Bf16s(77, 0.2F, 1);
  std::vector<float> x_f32, weight_f32;
  for (const Bf16 value : x) x_f32.push_back(ToFloat(value));
  for (const Bf16 value : weight) weight_f32.push_back(ToFloat(value));
  for (const Arithmetic arithmetic : kBothArithmetics) {
    ThreadTeam team(2);
    Stream stream{.team = team, .arithmetic = arithmetic};
    std::vector<Bf16> out(x.size());
    rms_norm::Run({.x_f32 = x_f32.data(),
                   .x_stride = 77,
                   .n_rows = 3,
                   .n_columns = 77,
                   .weight_f32 = weight_f32.data(),
                   .eps = 1e-5F,
                   .out = out.data(),
                   .out_stride = 77},
                  stream);
    EXPECT_EQ(out, Normalize(x, weight, 1e-5F, arithmetic));
  }
}

// op.h gives the order of the float32 sum; vector variants keep it.
TEST(RmsNorm, Float32SumsIn16LanesAndATree) {
  constexpr size_t kColumns = 45;
  Samples samples(2);
  const std::vector<Bf16> x = samples.Bf16s(kColumns, 3);
  const std::vector<Bf16> ones(kColumns, ToBf16(1));
  float lanes[16] = {};
  for (size_t i = 0; i < kColumns; ++i) lanes[i % 16] += ToFloat(x[i]) * ToFloat(x[i]);
  for (const size_t half : {8, 4, 2, 1}) {
    for (size_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  const float inverse = 1.0F / std::sqrt(lanes[0] / 45.0F);
  const std::vector<Bf16> got = Normalize(x, ones, 0, Arithmetic::kFloat32);
  for (size_t i = 0; i < kColumns; ++i) EXPECT_EQ(got[i], ToBf16(ToFloat(x[i]) * inverse));
}

// 1e-6 would shrink small rows (spec model.md §7.3, 19).
TEST(RmsNorm, AnEpsilonOf1em20KeepsSmallRowsAtUnitLength) {
  const std::vector<Bf16> x(32, ToBf16(1e-5F));
  const std::vector<Bf16> ones(32, ToBf16(1));
  for (const Arithmetic arithmetic : kBothArithmetics) {
    EXPECT_EQ(Normalize(x, ones, 1e-20F, arithmetic)[0], ToBf16(1.0F));
    EXPECT_LT(ToFloat(Normalize(x, ones, 1e-6F, arithmetic)[0]), 0.02F);
    EXPECT_EQ(Normalize(std::vector<Bf16>(32, ToBf16(0)), ones, 1e-20F, arithmetic)[0], ToBf16(0));
  }
}

// g (x r) and (g x) r differ in the last bit of the float, and so once in 10^5 in the bf16.
TEST(RmsNorm, TheWeightMultipliesWhatIsAlreadyNormalized) {
  Samples samples(3);
  int n_other_order = 0;
  for (int row = 0; row < 256; ++row) {  // each has a factor of its own
    const std::vector<Bf16> x = samples.Bf16s(4096, 3);
    const std::vector<Bf16> weight = samples.Bf16s(4096, 0.5F, 1);
    const std::vector<Bf16> got = Normalize(x, weight, 1e-20F, Arithmetic::kExact);
    const float inverse = InverseNorm(x);
    for (size_t i = 0; i < got.size(); ++i) {
      const float normalized = ToFloat(x[i]) * inverse;
      ASSERT_EQ(got[i], ToBf16(ToFloat(weight[i]) * normalized));
      const float weighted = ToFloat(weight[i]) * ToFloat(x[i]);
      n_other_order += got[i] == ToBf16(weighted * inverse) ? 0 : 1;
    }
  }
  EXPECT_GT(n_other_order, 0);
}

TEST(RmsNorm, RowsAreIndependentAndMayBeNormalizedInPlace) {
  constexpr int64_t kRows = 6;
  constexpr int64_t kColumns = 70;
  Samples samples(4);
  const std::vector<Bf16> x = samples.Bf16s(kRows * kColumns, 2);
  const std::vector<Bf16> weight = samples.Bf16s(kColumns, 0.2F, 1);
  for (const Arithmetic arithmetic : kBothArithmetics) {
    harness::ExpectRowsAreIndependent(
        kRows, arithmetic, [&](int64_t first, int64_t n, Stream& stream) {
          std::vector<Bf16> rows(x.begin() + first * kColumns, x.begin() + (first + n) * kColumns);
          rms_norm::Run({.x = rows.data(),
                         .x_stride = kColumns,
                         .n_rows = n,
                         .n_columns = kColumns,
                         .weight = weight.data(),
                         .eps = 1e-20F,
                         .out = rows.data(),
                         .out_stride = kColumns},
                        stream);
          return harness::BytesOf(rows);
        });
  }
}

}  // namespace
}  // namespace sluice::ops::rms_norm
