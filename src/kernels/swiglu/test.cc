#include <gtest/gtest.h>

#include <cmath>

#include "kernels/harness/samples_test_impl.h"
#include "kernels/simd/elementary.h"
#include "kernels/swiglu/op.h"

namespace sluice::ops::swiglu {
namespace {

std::vector<Bf16> Gated(const std::vector<float>& gate,
                        const std::vector<float>& up,
                        Stream& stream) {
  std::vector<Bf16> out(gate.size());
  swiglu::Run({.gate = gate.data(),
               .up = up.data(),
               .n = static_cast<int64_t>(gate.size()),
               .out = out.data()},
              stream);
  return out;
}

TEST(Swiglu, EqualsItsFormulaInBothArithmeticsWhateverTheLength) {
  harness::Samples samples(1);
  for (const int64_t n : {0, 1, 3, 4, 7, 1023, 1025, 3000}) {
    const std::vector<float> gate = samples.Floats(n, 4);
    const std::vector<float> up = samples.Floats(n, 2);
    for (const Arithmetic arithmetic : harness::kBothArithmetics) {
      std::vector<Bf16> want;
      for (size_t i = 0; i < gate.size(); ++i) {
        want.push_back(ToBf16(simd::Silu(gate[i], arithmetic) * up[i]));
      }
      for (int32_t n_threads = 1; n_threads <= 3; ++n_threads) {
        ThreadTeam team(n_threads);
        Stream stream{.team = team, .arithmetic = arithmetic};
        EXPECT_EQ(Gated(gate, up, stream), want) << n << " values, " << n_threads << " threads";
      }
    }
  }
}

TEST(Swiglu, TheGateIsTheOneThatGoesThroughSilu) {
  ThreadTeam team(1);
  Stream stream{.team = team, .arithmetic = Arithmetic::kExact};
  const auto want = static_cast<float>(2 / (1 + std::exp(-2.0)) * -3);
  EXPECT_EQ(Gated({2}, {-3}, stream)[0], ToBf16(want));
}

TEST(Swiglu, WhatIsNoNumberStaysNone) {
  ThreadTeam team(1);
  Stream stream{.team = team};
  const std::vector<Bf16> out = Gated({NAN, 1, 1, 1}, {1, NAN, 1, 1}, stream);
  EXPECT_TRUE(std::isnan(ToFloat(out[0])));
  EXPECT_TRUE(std::isnan(ToFloat(out[1])));
  EXPECT_FALSE(std::isnan(ToFloat(out[2])));
}

}  // namespace
}  // namespace sluice::ops::swiglu
