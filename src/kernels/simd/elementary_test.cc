#include "kernels/simd/elementary.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/simd/exp2.h"
#include "kernels/simd/flush_denormals.h"

namespace sluice::simd {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Error in units of the last place of the true value; normal results only.
double Ulps(float got, double want) {
  const double ulp = std::ldexp(1.0, std::max(std::ilogb(want), -126) - 23);
  return std::fabs(got - want) / ulp;
}

// Largest error over floats of [low, high], both signs; a prime step visits all bit patterns'
// kinds.
template <typename Function, typename Exact>
double LargestError(float low, float high, const Function& function, const Exact& exact) {
  double largest = 0;
  const auto first = std::bit_cast<uint32_t>(low);
  const auto last = std::bit_cast<uint32_t>(high);
  for (uint32_t bits = first; bits <= last; bits += 1009) {
    const auto x = std::bit_cast<float>(bits);
    for (const float signed_x : {x, -x}) {
      const double want = exact(double{signed_x});
      if (std::fabs(want) < 0x1.0001p-126 || want > 3.4e38) continue;
      largest = std::max(largest, Ulps(function(signed_x), want));
    }
  }
  return largest;
}

TEST(Elementary, Float32FunctionsAreWithinTwoUlps) {
  const auto exp = [](double x) { return std::exp(x); };
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  const auto silu = [](double x) { return x / (1 + std::exp(-x)); };
  const double exp_error = LargestError(1e-6F, 88.7F, ExpFloat32, exp);
  const double sigmoid_error =
      LargestError(1e-6F, 87.0F, [](float x) { return Sigmoid(x, Arithmetic::kFloat32); }, sigmoid);
  const double silu_error =
      LargestError(1e-6F, 87.0F, [](float x) { return Silu(x, Arithmetic::kFloat32); }, silu);
  RecordProperty("exp", std::to_string(exp_error));
  RecordProperty("sigmoid", std::to_string(sigmoid_error));
  RecordProperty("silu", std::to_string(silu_error));
  EXPECT_LE(exp_error, 1.5);
  EXPECT_LE(sigmoid_error, 2.5);
  EXPECT_LE(silu_error, 2.5);
}

TEST(Elementary, Exp2IsWithinItsErrorOnesAtZeroAndNoNumberForNone) {
  for (float x = 0; x > -100; x -= 0.00071F) {
    const double want = std::exp2(double{x});
    ASSERT_NEAR(Exp2(x), want, 2.9e-6 * want) << x;
  }
  EXPECT_EQ(Exp2(0), 1.0F);
  EXPECT_EQ(Exp2(-0.0F), 1.0F);
  EXPECT_EQ(Exp2(-1e30F), 0x1p-100F);
  EXPECT_EQ(Exp2(-kInfinity), 0x1p-100F);
  EXPECT_TRUE(std::isnan(Exp2(NAN)));
}

TEST(Elementary, ExpMeetsItsEnds) {
  EXPECT_EQ(ExpFloat32(0.0F), 1.0F);
  EXPECT_EQ(ExpFloat32(-0.0F), 1.0F);
  EXPECT_EQ(ExpFloat32(kInfinity), kInfinity);
  EXPECT_EQ(ExpFloat32(100.0F), kInfinity);
  EXPECT_EQ(ExpFloat32(-kInfinity), 0.0F);
  EXPECT_EQ(ExpFloat32(-1e30F), 0.0F);  // what a softmax subtracts from its first maximum
  EXPECT_EQ(ExpFloat32(-87.34F), 0.0F);
  EXPECT_GT(ExpFloat32(-87.33F), 0x1p-126F);
  EXPECT_LT(ExpFloat32(88.72F), kInfinity);
  EXPECT_TRUE(std::isnan(ExpFloat32(std::numeric_limits<float>::quiet_NaN())));
  EXPECT_TRUE(std::isnan(ExpFloat32(-std::numeric_limits<float>::quiet_NaN())));
}

TEST(Elementary, ExpDoesNotDependOnHowDenormalsAreTreated) {
  for (uint32_t bits = 0; bits < 0x42C00000U; bits += 99991) {
    for (const uint32_t sign : {0U, 0x80000000U}) {
      const auto x = std::bit_cast<float>(bits | sign);
      const float before = ExpFloat32(x);
      float flushed;
      {
        const FlushDenormals flush(Arithmetic::kFloat32);
        flushed = ExpFloat32(x);
      }
      ASSERT_EQ(std::bit_cast<uint32_t>(before), std::bit_cast<uint32_t>(flushed)) << x;
    }
  }
}

TEST(Elementary, SigmoidAndSiluAreFiniteEverywhere) {
  for (const Arithmetic arithmetic : {Arithmetic::kFloat32, Arithmetic::kExact}) {
    EXPECT_EQ(Sigmoid(0.0F, arithmetic), 0.5F);
    EXPECT_EQ(Sigmoid(200.0F, arithmetic), 1.0F);
    EXPECT_EQ(Sigmoid(-200.0F, arithmetic), 0.0F);
    EXPECT_EQ(Silu(200.0F, arithmetic), 200.0F);
    EXPECT_EQ(Silu(-200.0F, arithmetic), -0.0F);
    EXPECT_EQ(Silu(0.0F, arithmetic), 0.0F);
  }
}

TEST(Elementary, ExactFunctionsRoundTheDoubleOnce) {
  for (float x = -30; x < 30; x += 0.37F) {
    EXPECT_EQ(Exp(x, Arithmetic::kExact), static_cast<float>(std::exp(double{x})));
    EXPECT_EQ(Silu(x, Arithmetic::kExact), static_cast<float>(x / (1 + std::exp(-double{x}))));
  }
}

TEST(Elementary, SoftplusIsTheIdentityAbove20) {
  for (const Arithmetic arithmetic : {Arithmetic::kFloat32, Arithmetic::kExact}) {
    EXPECT_EQ(Softplus(20.5F, arithmetic), 20.5F);
    EXPECT_EQ(Softplus(1000.0F, arithmetic), 1000.0F);
    EXPECT_EQ(Softplus(0.0F, arithmetic), 0.69314718F);
    EXPECT_NEAR(Softplus(-30.0F, arithmetic), 9.3576e-14F, 1e-18F);
  }
}

TEST(Elementary, RsqrtOfTheSmallestEpsilonIsFinite) {
  EXPECT_FLOAT_EQ(Rsqrt(1e-20F, Arithmetic::kFloat32), 1e10F);
  EXPECT_FLOAT_EQ(Rsqrt(1e-20F, Arithmetic::kExact), 1e10F);
}

float Half(float x) {
  volatile float value = x;  // not at compile time
  return value * 0.5F;
}

TEST(FlushDenormals, FlushesInFloat32OnlyAndOnlyWhileItLives) {
  const float smallest = std::numeric_limits<float>::min();
  EXPECT_NE(Half(smallest), 0.0F);
  {
    const FlushDenormals flush(Arithmetic::kFloat32);
    EXPECT_TRUE(std::bit_cast<uint32_t>(Half(smallest)) == 0);
    volatile float denormal = std::bit_cast<float>(0x00400000U);
    EXPECT_TRUE(std::bit_cast<uint32_t>(denormal * 4.0F) == 0);  // inputs, too
  }
  EXPECT_NE(Half(smallest), 0.0F);
  {
    const FlushDenormals flush(Arithmetic::kExact);
    EXPECT_NE(Half(smallest), 0.0F);
  }
}

}  // namespace
}  // namespace sluice::simd
