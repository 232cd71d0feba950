#include <gtest/gtest.h>

#include <cmath>

#include "kernels/harness/samples_test_impl.h"
#include "kernels/hyper_mix/op.h"
#include "tensor/golden_file_test_impl.h"

namespace sluice::ops::hyper_mix {
namespace {

using harness::GoldenTensor;
using harness::kBothArithmetics;
using harness::Samples;
using harness::StoredMatrix;
using harness::Tables;

struct Coefficients {
  std::vector<float> pre;   // [n, 4]
  std::vector<float> post;  // [n, 4]
  std::vector<float> comb;  // [n, 4, 4]

  explicit Coefficients(int64_t n_rows)
      : pre(static_cast<size_t>(n_rows * 4)),
        post(static_cast<size_t>(n_rows * 4)),
        comb(static_cast<size_t>(n_rows * 16)) {}
};

Coefficients SplitGolden(Arithmetic arithmetic) {
  const GoldenTensor& p = Tables()["sinkhorn.p"];
  Coefficients out(p.shape[0]);
  for (int64_t row = 0; row < p.shape[0]; ++row) {
    Split({.p = p.as<float>() + row * 24,
           .base = Tables()["sinkhorn.base"].as<float>(),
           .scale = Tables()["sinkhorn.scale"].as<float>(),
           .n_streams = 4,
           .hc_eps = 1e-6F,
           .n_iterations = 20,
           .pre = out.pre.data() + row * 4,
           .post = out.post.data() + row * 4,
           .comb = out.comb.data() + row * 16},
          arithmetic);
  }
  return out;
}

void ExpectNear(const std::vector<float>& got, const GoldenTensor& want, double relative) {
  ASSERT_EQ(static_cast<int64_t>(got.size()), want.n_values());
  for (size_t i = 0; i < got.size(); ++i) {
    const double value = want.as<float>()[i];
    EXPECT_NEAR(got[i], value, relative * std::fabs(value)) << i;
  }
}

TEST(HyperMix, CoefficientsAreThoseOfTheReference) {
  for (const Arithmetic arithmetic : kBothArithmetics) {
    const Coefficients got = SplitGolden(arithmetic);
    ExpectNear(got.pre, Tables()["sinkhorn.pre"], 2e-6);
    ExpectNear(got.post, Tables()["sinkhorn.post"], 2e-6);
    ExpectNear(got.comb, Tables()["sinkhorn.comb"], 2e-6);
  }
}

// The comparison above would not notice a transposed table if the golden one were symmetric.
TEST(HyperMix, CombIsSourceByDestinationNotTransposed) {
  const auto* want = Tables()["sinkhorn.comb"].as<float>();
  EXPECT_GT(std::fabs(want[2] - want[8]), 0.2F);
  for (const Arithmetic arithmetic : kBothArithmetics) {
    EXPECT_NEAR(SplitGolden(arithmetic).comb[2], 0.46128237F, 1e-6F);  // spec model.md, appendix A
  }
}

TEST(HyperMix, TheLastStepNormalizesDestinationsAndPreIsNotNormalized) {
  for (const Arithmetic arithmetic : kBothArithmetics) {
    const Coefficients got = SplitGolden(arithmetic);
    for (size_t j = 0; j < 4; ++j) {
      const float sum = got.comb[j] + got.comb[4 + j] + got.comb[8 + j] + got.comb[12 + j];
      EXPECT_NEAR(sum, 0.999999F, 3e-7F);
    }
    EXPECT_NEAR(got.pre[0] + got.pre[1] + got.pre[2] + got.pre[3], 0.8595126F, 1e-6F);
  }
}

struct Site {
  std::vector<Bf16> streams;
  StoredMatrix fn;
  std::vector<float> base;
  std::vector<float> scale;
  int32_t n_columns = 0;
  int64_t n_rows = 0;
};

Site MakeSite(int64_t n_rows, int32_t n_columns, float deviation) {
  Samples samples(7);
  Site site{.streams = samples.Bf16s(n_rows * 4 * n_columns, deviation),
            .fn = samples.Weight(MatrixFormat::kF32, 24, int64_t{4} * n_columns),
            .base = samples.Floats(24, 0.5F),
            .scale = {0.1F, 0.2F, 0.05F},
            .n_columns = n_columns,
            .n_rows = n_rows};
  return site;
}

Coefficients RunSite(const Site& site, int64_t first, int64_t n_rows, Stream& stream) {
  Coefficients out(n_rows);
  std::vector<float> p(static_cast<size_t>(n_rows * 24));
  hyper_mix::Run({.streams = site.streams.data() + first * 4 * site.n_columns,
                  .n_rows = n_rows,
                  .n_streams = 4,
                  .n_columns = site.n_columns,
                  .fn = site.fn.matrix,
                  .base = site.base.data(),
                  .scale = site.scale.data(),
                  .rms_eps = 1e-20F,
                  .hc_eps = 1e-6F,
                  .n_iterations = 20,
                  .pre = out.pre.data(),
                  .post = out.post.data(),
                  .comb = out.comb.data(),
                  .p = p.data()},
                 stream);
  return out;
}

// Row 0 by the formula, in double up to the split.
Coefficients FormulaOfRow0(const Site& site) {
  const size_t n = static_cast<size_t>(site.n_columns) * 4;
  double squares = 0;
  for (size_t i = 0; i < n; ++i) squares += std::pow(double{ToFloat(site.streams[i])}, 2);
  const double inverse = 1 / std::sqrt(squares / static_cast<double>(n) + 1e-20);
  std::vector<float> p(24);
  std::vector<float> weights(n);
  for (size_t o = 0; o < 24; ++o) {
    DecodeMatrixRow(site.fn.matrix, static_cast<int64_t>(o), weights.data());
    double sum = 0;
    for (size_t i = 0; i < n; ++i) sum += double{ToFloat(site.streams[i])} * double{weights[i]};
    p[o] = static_cast<float>(sum * inverse);
  }
  Coefficients want(1);
  Split({.p = p.data(),
         .base = site.base.data(),
         .scale = site.scale.data(),
         .n_streams = 4,
         .hc_eps = 1e-6F,
         .n_iterations = 20,
         .pre = want.pre.data(),
         .post = want.post.data(),
         .comb = want.comb.data()},
        Arithmetic::kExact);
  return want;
}

void ExpectClose(const std::vector<float>& got, const std::vector<float>& want) {
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 2e-5F * want[i]) << i;
}

TEST(HyperMix, TheProjectionIsScaledByTheNormOfAllStreams) {
  ThreadTeam team(2);
  const Site site = MakeSite(1, 40, 2);
  const Coefficients want = FormulaOfRow0(site);
  for (const Arithmetic arithmetic : kBothArithmetics) {
    Stream stream{.team = team, .arithmetic = arithmetic};
    const Coefficients got = RunSite(site, 0, 1, stream);
    ExpectClose(got.pre, want.pre);
    ExpectClose(got.post, want.post);
    ExpectClose(got.comb, want.comb);
  }
}

// With 1e-6 instead the coefficients of small rows would fall to those of p = 0 (spec model.md
// §7.3, 19).
TEST(HyperMix, TheNormTakesAnEpsilonOf1em20) {
  ThreadTeam team(1);
  const Site site = MakeSite(1, 40, 1e-5F);
  const Coefficients want = FormulaOfRow0(site);
  for (const Arithmetic arithmetic : kBothArithmetics) {
    Stream stream{.team = team, .arithmetic = arithmetic};
    ExpectClose(RunSite(site, 0, 1, stream).pre, want.pre);
  }
}

TEST(HyperMix, RowsAreIndependent) {
  const Site site = MakeSite(6, 70, 2);
  for (const Arithmetic arithmetic : kBothArithmetics) {
    harness::ExpectRowsAreIndependent(
        site.n_rows, arithmetic, [&](int64_t first, int64_t n, Stream& stream) {
          const Coefficients got = RunSite(site, first, n, stream);
          std::vector<float> rows;
          for (int64_t row = 0; row < n; ++row) {
            rows.insert(rows.end(), got.pre.begin() + row * 4, got.pre.begin() + row * 4 + 4);
            rows.insert(rows.end(), got.post.begin() + row * 4, got.post.begin() + row * 4 + 4);
            rows.insert(rows.end(), got.comb.begin() + row * 16, got.comb.begin() + row * 16 + 16);
          }
          return harness::BytesOf(rows);
        });
  }
}

}  // namespace
}  // namespace sluice::ops::hyper_mix
