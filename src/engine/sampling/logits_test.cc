#include "engine/sampling/logits.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace sluice::engine {
namespace {

TEST(Logits, OneValueThatIsNotFiniteIsEnough) {
  std::vector<float> logits = {1, -2, 3e38F};
  EXPECT_TRUE(IsFinite(logits));
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity()}) {
    logits[1] = bad;
    EXPECT_FALSE(IsFinite(logits)) << bad;
  }
}

TEST(Logits, PenaltiesGoByCountAndByPresenceAndBiasComesOnTop) {
  wire::SamplingParams params;
  EXPECT_FALSE(Adjusts(params));
  params.frequency_penalty = 0.5;
  params.presence_penalty = -2;
  params.logit_bias = {{.token = TokenId(3), .bias = 100}, {.token = TokenId(0), .bias = -1}};
  EXPECT_TRUE(Adjusts(params) && HasPenalties(params));
  std::vector<TokenCount> generated;
  for (int32_t token : {1, 3, 1, 1}) Count(TokenId(token), generated);
  std::vector<float> logits(5, 10);
  Adjust(params, generated, logits);
  EXPECT_EQ(logits, (std::vector<float>{9, 10.5, 10, 111.5, 10}));
}

TEST(Logits, LogprobsAddUpToOneAndAlternativesFallWithTiesToTheLowerId) {
  const std::vector<float> logits = {1, 3, 3, -50, 2};
  const wire::TokenLogprob all = LogprobOf(logits, TokenId(4), 20);
  ASSERT_EQ(all.alternatives.size(), logits.size()) << "there are no more";
  double sum = 0;
  std::vector<int32_t> order;
  for (const auto& [token, logprob] : all.alternatives) {
    sum += std::exp(logprob);
    order.push_back(token.value);
  }
  EXPECT_NEAR(sum, 1, 1e-6);  // five roundings to float32 of values below 4
  EXPECT_EQ(order, (std::vector<int32_t>{1, 2, 4, 0, 3}));
  EXPECT_EQ(all.logprob, all.alternatives[2].logprob);
  EXPECT_TRUE(LogprobOf(logits, TokenId(4), 0).alternatives.empty());
}

}  // namespace
}  // namespace sluice::engine
