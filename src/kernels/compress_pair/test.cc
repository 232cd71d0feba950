#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/compress_pair/op.h"
#include "kernels/harness/samples_test_impl.h"

namespace sluice::ops::compress_pair {
namespace {

using Floats = std::vector<float>;

// Pairs laid out as a step has them: a value row and a gate row per token.
struct Tokens {
  int32_t n_columns;
  Floats values;  // [2 * n_pairs, n_columns]
  Floats gates;

  std::vector<Pair> Pairs() const {
    std::vector<Pair> pairs(values.size() / static_cast<size_t>(2 * n_columns));
    for (size_t i = 0; i < pairs.size(); ++i) {
      for (size_t token = 0; token < 2; ++token) {
        const size_t place = (2 * i + token) * static_cast<size_t>(n_columns);
        pairs[i].value[token] = values.data() + place;
        pairs[i].gate[token] = gates.data() + place;
      }
    }
    return pairs;
  }
};

std::vector<Bf16> Pool(const std::vector<Pair>& pairs, int32_t n_columns, Stream& stream) {
  std::vector<Bf16> out(pairs.size() * static_cast<size_t>(n_columns));
  Run({.pairs = pairs.data(),
       .n_pairs = static_cast<int64_t>(pairs.size()),
       .n_columns = n_columns,
       .out = out.data()},
      stream);
  return out;
}

std::vector<Bf16> Pool(const Tokens& tokens, Arithmetic arithmetic) {
  ThreadTeam team(1);
  Stream stream{.team = team, .arithmetic = arithmetic};
  return Pool(tokens.Pairs(), tokens.n_columns, stream);
}

Tokens Random(int64_t n_pairs, int32_t n_columns) {
  harness::Samples samples(11);
  return {.n_columns = n_columns,
          .values = samples.Floats(2 * n_pairs * n_columns),
          .gates = samples.Floats(2 * n_pairs * n_columns, 3)};
}

// Written down from the reference: values (i-3)/4 and (5-i)/8, gates i/2-1 and 1-i/4.
TEST(CompressPair, GivesTheValuesOfTheReference) {
  Tokens tokens{.n_columns = 8, .values = Floats(16), .gates = Floats(16)};
  for (int i = 0; i < 8; ++i) {
    const auto column = static_cast<size_t>(i);
    tokens.values[column] = static_cast<float>(i - 3) / 4;
    tokens.values[column + 8] = static_cast<float>(5 - i) / 8;
    tokens.gates[column] = static_cast<float>(i) / 2 - 1;
    tokens.gates[column + 8] = 1 - static_cast<float>(i) / 4;
  }
  const uint16_t want[8] = {0x3eec, 0x3e8e, 0x3e0e, 0x3de0, 0x3e5e, 0x3eda, 0x3f2f, 0x3f74};
  for (const Arithmetic arithmetic : harness::kBothArithmetics) {
    const std::vector<Bf16> got = Pool(tokens, arithmetic);
    for (size_t i = 0; i < 8; ++i) EXPECT_EQ(got[i].bits, want[i]) << "column " << i;
  }
}

TEST(CompressPair, IsASoftmaxOverTheTwoTokensInEveryChannelByItself) {
  const Tokens tokens = Random(5, 96);
  for (const Arithmetic arithmetic : harness::kBothArithmetics) {
    const std::vector<Bf16> got = Pool(tokens, arithmetic);
    for (size_t i = 0; i < got.size(); ++i) {
      const size_t first = i / 96 * 192 + i % 96;
      const double a = tokens.values[first];
      const double b = tokens.values[first + 96];
      const double p = 1 / (1 + std::exp(double{tokens.gates[first + 96]} - tokens.gates[first]));
      // Rounding to bf16 and six roundings and two ulps of exp to float.
      const double bound =
          std::fabs(a * p + b * (1 - p)) * 0x1p-8 + (std::fabs(a) + std::fabs(b)) * 8 * 0x1p-24;
      EXPECT_NEAR(ToFloat(got[i]), a * p + b * (1 - p), bound) << i;
    }
  }
}

TEST(CompressPair, SurvivesGatesThatAreFarApart) {
  const float huge = std::numeric_limits<float>::max() / 4;
  const Tokens tokens{
      .n_columns = 3, .values = {1, 2, 3, 5, 6, 7}, .gates = {huge, -huge, 0, -huge, huge, 0}};
  for (const Arithmetic arithmetic : harness::kBothArithmetics) {
    const std::vector<Bf16> got = Pool(tokens, arithmetic);
    EXPECT_EQ(ToFloat(got[0]), 1);
    EXPECT_EQ(ToFloat(got[1]), 6);
    EXPECT_EQ(ToFloat(got[2]), 5);
  }
}

TEST(CompressPair, RowsAreIndependent) {
  const Tokens tokens = Random(7, 33);
  const std::vector<Pair> pairs = tokens.Pairs();
  for (const Arithmetic arithmetic : harness::kBothArithmetics) {
    harness::ExpectRowsAreIndependent(7, arithmetic, [&](int64_t first, int64_t n, Stream& stream) {
      const std::vector<Pair> part(pairs.begin() + first, pairs.begin() + first + n);
      return harness::BytesOf(Pool(part, 33, stream));
    });
  }
}

}  // namespace
}  // namespace sluice::ops::compress_pair
