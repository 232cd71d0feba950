#include "engine/sampling/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <vector>

namespace sluice::engine {
namespace {

constexpr int kDraws = 20'000;

// Counts by id over many positions.
std::map<int32_t, int> Count(std::span<const float> logits, const SampleParams& params) {
  Sampler sampler;
  std::map<int32_t, int> counts;
  for (int position = 0; position < kDraws; ++position) {
    ++counts[sampler.Sample(logits, params, position).value];
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
  EXPECT_EQ(sampler.Sample(logits, {.temperature = 0}, 5).value, 1);
  EXPECT_EQ(sampler.Sample(logits, {.temperature = 9e-6}, 5).value, 1);
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
    forward.push_back(one.Sample(kLogits, {.seed = 3}, position).value);
  }
  for (int64_t position = 63; position >= 0; --position) {
    EXPECT_EQ(other.Sample(kLogits, {.seed = 3}, position).value,
              forward[static_cast<size_t>(position)]);
  }
  int n_differ = 0;
  for (int64_t position = 0; position < 64; ++position) {
    n_differ +=
        other.Sample(kLogits, {.seed = 4}, position).value != forward[static_cast<size_t>(position)]
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

}  // namespace
}  // namespace sluice::engine
