#include "engine/sampling/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <random>
#include <vector>

#include "engine/sampling/plain_sampler_test_impl.h"

namespace sluice::engine {
namespace {

constexpr int kDraws = 20'000;

// Counts by id over many positions.
std::map<int32_t, int> Count(std::span<const float> logits, const SampleParams& params) {
  Sampler sampler;
  std::map<int32_t, int> counts;
  for (int position = 0; position < kDraws; ++position) {
    ++counts[sampler.Sample(logits, params, position)->value];
  }
  return counts;
}

// Within five standard deviations of what the law says.
void ExpectLaw(const std::map<int32_t, int>& counts, const std::map<int32_t, double>& law) {
  for (const auto& [id, p] : law) {
    const auto at = counts.find(id);
    const double n = at == counts.end() ? 0 : at->second;
    EXPECT_NEAR(n, kDraws * p, 5 * std::sqrt(kDraws * p * (1 - p))) << id;
  }
  for (const auto& [id, n] : counts) EXPECT_TRUE(law.contains(id)) << id << " came " << n;
}

const std::vector<float> kLogits = {std::log(0.1F), std::log(0.4F), std::log(0.2F), std::log(0.3F)};

TEST(Sampler, TemperatureZeroIsTheLargestLogitAndTiesGoToTheLowerId) {
  Sampler sampler;
  const std::vector<float> logits = {1, 3, 3, -2};
  EXPECT_EQ(sampler.Sample(logits, {.temperature = 0}, 5)->value, 1);
  EXPECT_EQ(sampler.Sample(logits, {.temperature = 9e-6}, 5)->value, 1);
}

TEST(Sampler, DrawsHaveTheLawOfTheLogits) {
  ExpectLaw(Count(kLogits, {.seed = 7}), {{0, 0.1}, {1, 0.4}, {2, 0.2}, {3, 0.3}});
}

TEST(Sampler, TemperatureFlattensAndSharpens) {
  const double sum = std::sqrt(0.1) + std::sqrt(0.4) + std::sqrt(0.2) + std::sqrt(0.3);
  ExpectLaw(Count(kLogits, {.temperature = 2, .seed = 8}), {{0, std::sqrt(0.1) / sum},
                                                            {1, std::sqrt(0.4) / sum},
                                                            {2, std::sqrt(0.2) / sum},
                                                            {3, std::sqrt(0.3) / sum}});
}

TEST(Sampler, TopPKeepsTheTokenThatCrosses) {
  ExpectLaw(Count(kLogits, {.top_p = 0.5, .seed = 9}), {{1, 0.4 / 0.7}, {3, 0.3 / 0.7}});
  ExpectLaw(Count(kLogits, {.top_p = 0.05, .seed = 9}), {{1, 1.0}});
}

TEST(Sampler, TopKAndMinPCut) {
  ExpectLaw(Count(kLogits, {.top_k = 1, .seed = 10}), {{1, 1.0}});
  ExpectLaw(Count(kLogits, {.min_p = 0.6, .seed = 11}), {{1, 0.4 / 0.7}, {3, 0.3 / 0.7}});
}

TEST(Sampler, ADrawDependsOnSeedAndPositionOnly) {
  Sampler one;
  Sampler other;
  std::vector<int32_t> forward;
  for (int64_t position = 0; position < 64; ++position) {
    forward.push_back(one.Sample(kLogits, {.seed = 3}, position)->value);
  }
  for (int64_t position = 63; position >= 0; --position) {
    EXPECT_EQ(other.Sample(kLogits, {.seed = 3}, position)->value,
              forward[static_cast<size_t>(position)]);
  }
  int n_differ = 0;
  for (int64_t position = 0; position < 64; ++position) {
    n_differ += other.Sample(kLogits, {.seed = 4}, position)->value !=
                        forward[static_cast<size_t>(position)]
                    ? 1
                    : 0;
  }
  EXPECT_GT(n_differ, 20);
}

// What the coupled verification rests on: a token that stays the likeliest by far stays drawn.
TEST(Sampler, ImpossibleTokensDoNotMoveTheOthers) {
  Sampler sampler;
  std::vector<float> longer = kLogits;
  longer.push_back(-INFINITY);
  for (int64_t position = 0; position < 64; ++position) {
    EXPECT_EQ(sampler.Sample(longer, {.seed = 5}, position),
              sampler.Sample(kLogits, {.seed = 5}, position));
  }
}

TEST(Sampler, WhereNothingIsPossibleThereIsNoToken) {
  Sampler sampler;
  const std::vector<float> none(5, -std::numeric_limits<float>::infinity());
  std::vector<float> one = none;
  one[3] = -7;
  for (const SampleParams& params :
       {SampleParams{.temperature = 0}, SampleParams{}, SampleParams{.top_p = 0.5},
        SampleParams{.top_k = 2}, SampleParams{.min_p = 1}}) {
    EXPECT_FALSE(sampler.Sample(none, params, 1));
    EXPECT_EQ(sampler.Sample(one, params, 1), TokenId(3));
  }
}

// Rows of many shapes: of language models, flat, with ties, with masked tokens and with extremes.
std::vector<float> SomeRow(std::mt19937& random) {
  const auto n = static_cast<size_t>(1 + random() % (random() % 8 == 0 ? 3000 : 60));
  const float scale = std::vector<float>{0, 1e-3F, 1, 4, 12, 60, 1e4F, 1e38F}[random() % 8];
  const bool has_ties = random() % 2 == 0;
  std::normal_distribution<float> normal;
  std::vector<float> row(n);
  for (float& logit : row) {
    logit = normal(random) * scale;
    if (has_ties) logit = std::round(logit);
    if (random() % 8 == 0) logit = -std::numeric_limits<float>::infinity();
    logit = std::min(logit, std::numeric_limits<float>::max());
  }
  return row;
}

SampleParams SomeParams(std::mt19937& random, size_t n) {
  const auto pick = [&random](std::vector<double> values) {
    return values[random() % values.size()];
  };
  SampleParams params;
  params.temperature = pick({0, 1e-5, 0.01, 0.3, 0.7, 1, 1, 1.5, 2, 100});
  params.top_p = pick({1, 1, 1, 0.95, 0.9, 0.5, 0.25, 1e-300, 0.9999999999999999});
  if (random() % 4 == 0) {  // at the border between two tokens of equal weight
    params.top_p = static_cast<double>(1 + random() % n) / static_cast<double>(n);
  }
  params.min_p = pick({0, 0, 0, 0.05, 0.3, 1, 1e-300});
  params.top_k = static_cast<int32_t>(pick({0, 0, 1, 2, 20, 59, 1e9}));
  params.seed = random();
  return params;
}

TEST(Sampler, AnswersWhatItsDefinitionDoesBitForBit) {
  const int seed = testing::UnitTest::GetInstance()->random_seed();
  std::printf("seed %d (--gtest_random_seed)\n", seed);
  std::mt19937 random(static_cast<uint32_t>(seed));
  Sampler sampler;
  for (int i = 0; i < 20'000; ++i) {
    const std::vector<float> row = SomeRow(random);
    const SampleParams params = SomeParams(random, row.size());
    const int64_t position = random() % 1000;
    ASSERT_EQ(sampler.Sample(row, params, position), PlainSample(row, params, position))
        << "round " << i << ": temperature " << params.temperature << ", top_p " << params.top_p
        << ", top_k " << params.top_k << ", min_p " << params.min_p << ", seed " << params.seed;
  }
}

// At and beside the sum of the k heaviest: there a sum in another order moves the cut.
TEST(Sampler, TheCutOfTopPIsThatOfTheSortedSum) {
  Sampler sampler;
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (int i = 0; i < 300; ++i) {
    std::vector<float> row(8);
    for (float& logit : row) logit = 0.3F * normal(random);
    const std::vector<PlainCandidate> all = PlainCandidates(row, {});
    double mass = 0;
    for (const PlainCandidate& candidate : all) mass += candidate.weight;
    const size_t n_heaviest = 1 + random() % 7;
    double seen = 0;
    for (size_t k = 0; k < n_heaviest; ++k) seen += all[k].weight;
    const double top_p = seen / mass;
    for (const double beside : {std::nextafter(top_p, 0), top_p, std::nextafter(top_p, 1)}) {
      const SampleParams params{.top_p = beside, .seed = static_cast<uint64_t>(i)};
      for (int64_t position = 0; position < 16; ++position) {
        ASSERT_EQ(sampler.Sample(row, params, position), PlainSample(row, params, position));
      }
    }
  }
}

}  // namespace
}  // namespace sluice::engine
