#include <gtest/gtest.h>

#include <cmath>

#include "kernels/harness/samples_test_impl.h"
#include "kernels/simd/elementary.h"
#include "kernels/simd/flush_denormals.h"
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

std::vector<Isa> IsasHere() {
  std::vector<Isa> isas;
  for (const Isa isa : swiglu::Isas()) {
    if (IsasOfMachine().Has(isa)) isas.push_back(isa);
  }
  return isas;
}

// Ordinary ones, ends of the exponential, denormals and products below the normal range.
std::vector<float> HardValues(harness::Samples& samples, int64_t n, float deviation) {
  constexpr float kHard[] = {0, -0.0F, 87.4F, -87.4F, 90, -90, 1e30F, -1e30F, 1e-39F, 0x1p-126F};
  std::vector<float> values = samples.Floats(n, deviation);
  for (float& value : values) {
    if (samples.Below(10) == 0) value = kHard[samples.Below(std::size(kHard))];
  }
  return values;
}

TEST(Swiglu, EqualsItsFormulaInBothArithmeticsWhateverTheLength) {
  harness::Samples samples(1);
  for (const int64_t n : {0, 1, 3, 7, 8, 17, 1023, 16384, 16385, 40000}) {
    const std::vector<float> gate = HardValues(samples, n, 4);
    const std::vector<float> up = HardValues(samples, n, 2);
    for (const Arithmetic arithmetic : harness::kBothArithmetics) {
      std::vector<Bf16> want;
      {
        const simd::FlushDenormals flush(arithmetic);
        for (size_t i = 0; i < gate.size(); ++i) {
          want.push_back(ToBf16(simd::Silu(gate[i], arithmetic) * up[i]));
        }
      }
      for (const Isa isa : IsasHere()) {
        for (int32_t n_threads = 1; n_threads <= 3; ++n_threads) {
          ThreadTeam team(n_threads);
          Stream stream{.team = team, .arithmetic = arithmetic, .isas = harness::UpTo(isa)};
          ASSERT_EQ(ChosenIsa({}, stream), arithmetic == Arithmetic::kExact ? Isa::kRef : isa);
          ASSERT_EQ(harness::BytesOf(Gated(gate, up, stream)), harness::BytesOf(want))
              << NameOf(isa) << ", " << n << " values, " << n_threads << " threads";
        }
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
  for (const Isa isa : IsasHere()) {
    Stream stream{.team = team, .isas = harness::UpTo(isa)};
    const std::vector<Bf16> out = Gated({NAN, 1, 1, 1}, {1, NAN, 1, 1}, stream);
    EXPECT_TRUE(std::isnan(ToFloat(out[0])));
    EXPECT_TRUE(std::isnan(ToFloat(out[1])));
    EXPECT_FALSE(std::isnan(ToFloat(out[2])));
  }
}

}  // namespace
}  // namespace sluice::ops::swiglu
