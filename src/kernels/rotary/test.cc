#include <gtest/gtest.h>

#include <cmath>

#include "kernels/harness/samples_test_impl.h"
#include "kernels/rotary/op.h"
#include "tensor/golden_file_test_impl.h"

namespace sluice::ops::rotary {
namespace {

using harness::GoldenTensor;
using harness::kBothArithmetics;
using harness::Samples;
using harness::Tables;

struct Table {
  const char* name;
  FrequencyParams params;
};

const Table kTables[] = {
    {"plain", {.n_rotated = 64, .base = 10000}},
    {"yarn", {.n_rotated = 64, .base = 160000, .n_original = 65536, .factor = 16}},
    {"tiny_a_plain", {.n_rotated = 16, .base = 10000}},
    {"tiny_a_yarn", {.n_rotated = 16, .base = 160000, .n_original = 64, .factor = 4}},
};

TEST(Rotary, FrequenciesEqualTheReferenceToTheBit) {
  for (const Table& table : kTables) {
    const GoldenTensor& want = Tables()[std::string("rotary.") + table.name + ".freqs"];
    const std::vector<float> got = Frequencies(table.params);
    EXPECT_EQ(harness::BytesOf(got), want.bytes) << table.name;
  }
}

// One table for all layers is invisible at short context (spec model.md §7.3, 15).
TEST(Rotary, YarnSlowsOnlyThePairsThatHardlyTurn) {
  const std::vector<float> yarn = Frequencies(kTables[1].params);
  FrequencyParams without = kTables[1].params;
  without.n_original = 0;
  const std::vector<float> plain = Frequencies(without);
  for (size_t pair = 0; pair < 32; ++pair) {
    if (pair <= 15) {
      EXPECT_EQ(yarn[pair], plain[pair]);
    } else {
      EXPECT_LT(yarn[pair], plain[pair]);
    }
    if (pair >= 25) {
      EXPECT_EQ(yarn[pair], plain[pair] / 16);
    }
  }
}

TEST(Rotary, AnglesAreThoseOfTheReference) {
  const GoldenTensor& positions = Tables()["rotary.positions"];
  const int64_t n_rows = positions.n_values();
  ThreadTeam team(2);
  for (const Arithmetic arithmetic : kBothArithmetics) {
    Stream stream{.team = team, .arithmetic = arithmetic};
    for (const Table& table : kTables) {
      const std::string name = std::string("rotary.") + table.name;
      const std::vector<float> frequencies = Frequencies(table.params);
      std::vector<float> cos(static_cast<size_t>(n_rows) * frequencies.size());
      std::vector<float> sin(cos.size());
      Angles({.positions = positions.as<int32_t>(),
              .n_rows = n_rows,
              .frequencies = frequencies.data(),
              .n_pairs = static_cast<int32_t>(frequencies.size()),
              .cos = cos.data(),
              .sin = sin.data()},
             stream);
      for (size_t i = 0; i < cos.size(); ++i) {
        EXPECT_NEAR(cos[i], Tables()[name + ".cos"].as<float>()[i], 1.2e-7F) << name << ' ' << i;
        EXPECT_NEAR(sin[i], Tables()[name + ".sin"].as<float>()[i], 1.2e-7F) << name << ' ' << i;
      }
    }
  }
}

// YaRN's temperature belongs neither here nor in the softmax (spec model.md §7.3, 16).
TEST(Rotary, ThereIsNoTemperature) {
  const std::vector<float> frequencies = Frequencies(kTables[1].params);
  const int32_t position = 0;
  float cos[32];
  float sin[32];
  ThreadTeam team(1);
  Stream stream{.team = team};
  Angles({.positions = &position,
          .n_rows = 1,
          .frequencies = frequencies.data(),
          .n_pairs = 32,
          .cos = cos,
          .sin = sin},
         stream);
  for (int pair = 0; pair < 32; ++pair) {
    EXPECT_EQ(cos[pair], 1.0F);
    EXPECT_EQ(sin[pair], 0.0F);
  }
}

// Two heads of 6 components of which the last 4 turn, by angles with exact values.
std::vector<float> RotateTwoHeads(bool inverse) {
  std::vector<Bf16> x;
  for (int i = 1; i <= 12; ++i) x.push_back(ToBf16(static_cast<float>(i)));
  const float cos[] = {0.0F, 0.5F};
  const float sin[] = {1.0F, 2.0F};
  ThreadTeam team(1);
  Stream stream{.team = team};
  rotary::Run({.x = x.data(),
               .x_stride = 12,
               .n_rows = 1,
               .n_heads = 2,
               .head_dim = 6,
               .cos = cos,
               .sin = sin,
               .n_pairs = 2,
               .inverse = inverse},
              stream);
  std::vector<float> out;
  for (const Bf16 value : x) out.push_back(ToFloat(value));
  return out;
}

TEST(Rotary, NeighboursTurnAndTheFirstComponentsOfAHeadStay) {
  // (3, 4) i = (-4, 3);  (5, 6) (0.5 + 2 i) = (2.5 - 12, 10 + 3)
  EXPECT_EQ(RotateTwoHeads(false),
            (std::vector<float>{1, 2, -4, 3, -9.5F, 13, 7, 8, -10, 9, -18.5F, 28}));
}

TEST(Rotary, TheInverseTurnsBack) {
  EXPECT_EQ(RotateTwoHeads(true),
            (std::vector<float>{1, 2, 4, -3, 14.5F, -7, 7, 8, 10, -9, 29.5F, -16}));
}

// What halves turn is what neighbours turn, with the components in another order; float32 rows do
// not round to bf16.
TEST(Rotary, HalvesTurnTheSamePairsFromOtherPlaces) {
  constexpr int32_t kPairs = 5;
  Samples samples(4);
  std::vector<float> cos = samples.Floats(kPairs);
  std::vector<float> sin = samples.Floats(kPairs);
  const std::vector<float> x = samples.Floats(2 * kPairs);
  std::vector<float> halves = x;
  std::vector<float> neighbours(x.size());
  for (size_t i = 0; i < kPairs; ++i) {
    neighbours[2 * i] = x[i];
    neighbours[2 * i + 1] = x[i + kPairs];
  }
  ThreadTeam team(1);
  Stream stream{.team = team};
  for (std::vector<float>* values : {&halves, &neighbours}) {
    rotary::Run({.x_f32 = values->data(),
                 .x_stride = 2 * kPairs,
                 .n_rows = 1,
                 .head_dim = 2 * kPairs,
                 .cos = cos.data(),
                 .sin = sin.data(),
                 .n_pairs = kPairs,
                 .pairing = values == &halves ? Pairing::kHalves : Pairing::kNeighbours},
                stream);
  }
  for (size_t i = 0; i < kPairs; ++i) {
    EXPECT_EQ(halves[i], neighbours[2 * i]);
    EXPECT_EQ(halves[i + kPairs], neighbours[2 * i + 1]);
    EXPECT_EQ(halves[i], x[i] * cos[i] - x[i + kPairs] * sin[i]);
  }
}

TEST(Rotary, RowsAreIndependent) {
  constexpr int64_t kRows = 6;
  constexpr int64_t kStride = 3 * 24;
  Samples samples(3);
  const std::vector<Bf16> x = samples.Bf16s(kRows * kStride);
  const std::vector<float> frequencies = Frequencies({.n_rotated = 16});
  const int32_t positions[] = {0, 5, 127, 128, 70000, 1048575};
  for (const Arithmetic arithmetic : kBothArithmetics) {
    harness::ExpectRowsAreIndependent(
        kRows, arithmetic, [&](int64_t first, int64_t n, Stream& stream) {
          std::vector<Bf16> rows(x.begin() + first * kStride, x.begin() + (first + n) * kStride);
          std::vector<float> cos(static_cast<size_t>(n * 8));
          std::vector<float> sin(cos.size());
          Angles({.positions = positions + first,
                  .n_rows = n,
                  .frequencies = frequencies.data(),
                  .n_pairs = 8,
                  .cos = cos.data(),
                  .sin = sin.data()},
                 stream);
          rotary::Run({.x = rows.data(),
                       .x_stride = kStride,
                       .n_rows = n,
                       .n_heads = 3,
                       .head_dim = 24,
                       .cos = cos.data(),
                       .sin = sin.data(),
                       .n_pairs = 8},
                      stream);
          return harness::BytesOf(rows);
        });
  }
}

}  // namespace
}  // namespace sluice::ops::rotary
