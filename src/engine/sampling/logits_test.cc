#include "engine/sampling/logits.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>
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

// A row of tens, adjusted for a request with these stop ids.
std::vector<float> Adjusted(const wire::SamplingParams& params,
                            const TokenHistory& history,
                            int32_t n_generated = 0,
                            const std::vector<TokenId>& banned = {}) {
  std::vector<float> logits(6, 10);
  const std::vector<TokenId> stop_ids = {TokenId(4)};
  const Adjustment adjustment{.sampling = params,
                              .banned = banned,
                              .stop_ids = stop_ids,
                              .eos = TokenId(5),
                              .n_generated = n_generated,
                              .history = history};
  EXPECT_TRUE(Adjusts(adjustment));
  Adjust(adjustment, logits);
  return logits;
}

TEST(Logits, AModelWithoutAnEndTokenHoldsBackStopIdsOnly) {
  wire::SamplingParams params;
  params.n_min = 1;
  std::vector<float> logits(6, 10);
  const std::vector<TokenId> stop_ids = {TokenId(4)};
  Adjust(
      {.sampling = params, .banned = {}, .stop_ids = stop_ids, .eos = std::nullopt, .history = {}},
      logits);
  EXPECT_EQ(logits,
            (std::vector<float>{10, 10, 10, 10, -std::numeric_limits<float>::infinity(), 10}));
}

TEST(Logits, NeutralValuesChangeNothing) {
  const wire::SamplingParams params;
  EXPECT_FALSE(HasPenalties(params));
  EXPECT_FALSE(Adjusts({.sampling = params,
                        .banned = {},
                        .stop_ids = {},
                        .eos = TokenId(5),
                        .n_generated = 0,
                        .history = {}}));
}

TEST(Logits, PenaltiesGoByCountAndByPresenceAndBiasComesOnTop) {
  wire::SamplingParams params;
  params.frequency_penalty = 0.5;
  params.presence_penalty = -2;
  params.logit_bias = {{.token = TokenId(3), .bias = 100}, {.token = TokenId(0), .bias = -1}};
  EXPECT_TRUE(HasPenalties(params));
  TokenHistory history = HistoryOf(std::vector<TokenId>{TokenId(2)}, 6);
  for (int32_t token : {1, 3, 1, 1}) Count(TokenId(token), history);
  EXPECT_EQ(Adjusted(params, history), (std::vector<float>{9, 10.5, 10, 111.5, 10, 10}));
}

TEST(Logits, HistoryIsByIdWhateverTheOrder) {
  TokenHistory history = HistoryOf(std::vector<TokenId>{TokenId(4), TokenId(1), TokenId(4)}, 6);
  for (int32_t token : {5, 1, 0, 5, 5}) Count(TokenId(token), history);
  std::vector<std::pair<int32_t, int32_t>> got;
  for (const TokenCount& count : history) got.emplace_back(count.token.value, count.n);
  EXPECT_EQ(got, (std::vector<std::pair<int32_t, int32_t>>{{0, 1}, {1, 1}, {4, 0}, {5, 3}}));
}

// HF: divided above 0, multiplied below; prompt and output alike, however often; behind the bias
// and before the other penalties.
TEST(Logits, ARepetitionPenaltyIsOfPromptAndOutput) {
  wire::SamplingParams params;
  params.repetition_penalty = 2;
  params.logit_bias = {{.token = TokenId(1), .bias = -14}, {.token = TokenId(2), .bias = 2}};
  params.presence_penalty = 1;
  TokenHistory history = HistoryOf(std::vector<TokenId>{TokenId(0), TokenId(1)}, 6);
  for (int32_t token : {2, 2, 1}) Count(TokenId(token), history);
  EXPECT_EQ(Adjusted(params, history), (std::vector<float>{5, -9, 5, 10, 10, 10}));
}

TEST(Logits, ATinyRepetitionPenaltyMakesNoInfinity) {
  wire::SamplingParams params;
  params.repetition_penalty = 5e-324;
  EXPECT_EQ(Adjusted(params, {{.token = TokenId(2), .n = 0}})[2],
            std::numeric_limits<float>::max());
}

TEST(Logits, EndsWaitForTheMinimumLength) {
  wire::SamplingParams params;
  params.n_min = 3;
  params.logit_bias = {{.token = TokenId(5), .bias = 100}, {.token = TokenId(1), .bias = 1}};
  const float masked = -std::numeric_limits<float>::infinity();
  EXPECT_EQ(Adjusted(params, {}, 2), (std::vector<float>{10, 11, 10, 10, masked, masked}));
  EXPECT_EQ(Adjusted(params, {}, 3), (std::vector<float>{10, 11, 10, 10, 10, 110}));
}

TEST(Logits, NothingBringsABannedTokenBack) {
  wire::SamplingParams params;
  params.logit_bias = {{.token = TokenId(0), .bias = 100}};
  params.repetition_penalty = 0.01;
  params.presence_penalty = -2;
  const float masked = -std::numeric_limits<float>::infinity();
  EXPECT_EQ(Adjusted(params, {{.token = TokenId(0), .n = 1}}, 0, {TokenId(0), TokenId(3)}),
            (std::vector<float>{masked, 10, 10, masked, 10, 10}));
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
  for (size_t i = 0; i < order.size(); ++i) {
    EXPECT_EQ(LogprobOf(logits, TokenId(order[i]), 0).rank, static_cast<int32_t>(i) + 1);
  }
  EXPECT_TRUE(LogprobOf(logits, TokenId(4), 0).alternatives.empty());
  const wire::TokenLogprob two = LogprobOf(logits, TokenId(4), 2);
  ASSERT_EQ(two.alternatives.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(two.alternatives[i].token, all.alternatives[i].token);
    EXPECT_EQ(two.alternatives[i].logprob, all.alternatives[i].logprob);
  }
}

TEST(Logits, LogprobsAreFiniteHoweverFarApartLogitsAre) {
  const float far = std::numeric_limits<float>::max();
  const wire::TokenLogprob told = LogprobOf(std::vector<float>{far, -far, 0}, TokenId(1), 3);
  EXPECT_EQ(told.logprob, -far);
  for (const auto& alternative : told.alternatives) {
    EXPECT_TRUE(std::isfinite(alternative.logprob));
  }
}

}  // namespace
}  // namespace sluice::engine
