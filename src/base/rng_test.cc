#include "base/rng.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>

namespace sluice {
namespace {

// kat_vectors of Random123 1.14, lines "philox4x32 10": counter and key as 32-bit words, lowest
// first; the first two words of the answer.
TEST(Rng, MatchesTheKnownAnswersOfRandom123) {
  EXPECT_EQ(RandomBits({.seed = 0, .position = 0, .stream = 0}), 0xe169c58d'6627e8d5U);
  constexpr uint64_t kOnes = ~uint64_t{0};
  EXPECT_EQ(RandomBits({.seed = kOnes, .position = kOnes, .stream = kOnes}), 0x41c83b0e'408f276dU);
  EXPECT_EQ(RandomBits({.seed = 0x299f31d0'a4093822U,
                        .position = 0x85a308d3'243f6a88U,
                        .stream = 0x03707344'13198a2eU}),
            0x94fdcceb'd16cfe09U);
}

TEST(Rng, EveryPartOfTheKeyCounts) {
  std::set<uint64_t> seen;
  for (int bit = 0; bit < 64; ++bit) {
    seen.insert(RandomBits({.seed = uint64_t{1} << bit}));
    seen.insert(RandomBits({.position = uint64_t{1} << bit}));
    seen.insert(RandomBits({.stream = uint64_t{1} << bit}));
  }
  EXPECT_EQ(seen.size(), 3U * 64U);
}

TEST(Rng, TheValueDoesNotDependOnWhatWasDrawnBefore) {
  const RngKey key = {.seed = 7, .position = 1'000'003, .stream = 2};
  const uint64_t first = RandomBits(key);
  for (uint64_t position = 0; position < 100; ++position) {
    RandomBits({.seed = 7, .position = position, .stream = 2});
  }
  EXPECT_EQ(RandomBits(key), first);
}

TEST(Rng, UniformIsInsideTheOpenIntervalAndEven) {
  constexpr uint64_t kDraws = 100'000;
  double sum = 0;
  double squares = 0;
  for (uint64_t position = 0; position < kDraws; ++position) {
    const double x = RandomUniform({.seed = 1, .position = position});
    ASSERT_GT(x, 0.0);
    ASSERT_LT(x, 1.0);
    sum += x;
    squares += x * x;
  }
  // Five standard deviations of the means of x and x^2: sqrt(1/12 / n) and sqrt(4/45 / n).
  EXPECT_NEAR(sum / kDraws, 1.0 / 2, 5 * 0.2887 / 316.2);
  EXPECT_NEAR(squares / kDraws, 1.0 / 3, 5 * 0.2982 / 316.2);
}

}  // namespace
}  // namespace sluice
