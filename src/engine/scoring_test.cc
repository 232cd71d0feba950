// Requests whose prompts are scored: what is told, when, and what it costs others.

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "engine/engine_test_impl.h"

namespace sluice::engine {
namespace {

using wire::FinishReason;

class ScoringTest : public testing::Test, protected EngineInVirtualTime {
 protected:
  static constexpr int32_t kLongContext = 640;

  static Engine::Params LongParams() {
    return {.max_running = 4,
            .max_waiting = 8,
            .n_context = kLongContext,
            .n_prompt_rows = 512,
            .replay = Replay::kExact,
            .checks_invariants = true};
  }
};

wire::GenerateRequest AskForScores(uint64_t id, std::vector<TokenId> prompt, int32_t n_max) {
  wire::GenerateRequest request = Ask(id, std::move(prompt), n_max);
  request.sampling.n_prompt_logprobs = 2;
  return request;
}

// 1, 2, ... 70, 1, 2, ...: what the counting model expects, but for each 71st token.
std::vector<TokenId> CountedPrompt(int32_t n) {
  std::vector<TokenId> tokens;
  for (int32_t i = 0; i < n; ++i) tokens.emplace_back(i % 70 + 1);
  return tokens;
}

std::vector<wire::TokenLogprob> ScoresOf(const Listener& client) {
  std::vector<wire::TokenLogprob> scores;
  for (const wire::TokenEvent& event : client.events) {
    scores.insert(scores.end(), event.prompt_logprobs.begin(), event.prompt_logprobs.end());
  }
  return scores;
}

size_t CountPieces(const Listener& client) {
  return static_cast<size_t>(std::ranges::count_if(
      client.events, [](const auto& e) { return !e.prompt_logprobs.empty(); }));
}

TEST_F(ScoringTest, EachTokenButTheFirstHasTheScoreOfTheRowBeforeIt) {
  Start();
  const std::vector<TokenId> prompt = {TokenId(5), TokenId(6), TokenId(9), TokenId(10)};
  Listener& client = Submit(AskForScores(1, prompt, 2));
  RunAt(At(0));
  const std::vector<wire::TokenLogprob> scores = ScoresOf(client);
  ASSERT_EQ(scores.size(), 3u);
  std::vector<int32_t> ranks;
  for (const wire::TokenLogprob& score : scores) ranks.push_back(score.rank);
  EXPECT_EQ(ranks, (std::vector<int32_t>{1, 10, 1})) << "7 comes first, then 0 to 6 and 8 by id";
  EXPECT_GT(scores[0].logprob, -1e-6F);
  EXPECT_LT(scores[1].logprob, -49.F);
  ASSERT_EQ(scores[1].alternatives.size(), 2u);
  EXPECT_EQ(scores[1].alternatives[0].token, TokenId(7));
  EXPECT_EQ(scores[1].alternatives[1].token, TokenId(0));
  EXPECT_EQ(TokensOf(client), Counting(11, 2));
  EXPECT_EQ(client.events.size(), 2u) << "the scores came with the first token";
}

TEST_F(ScoringTest, NothingIsGeneratedIfNothingIsAskedFor) {
  Start();
  Listener& client = Submit(AskForScores(1, CountedPrompt(20), 0));
  Listener& shortest = Submit(AskForScores(2, CountedPrompt(1), 0));
  RunAt(At(0));
  EXPECT_EQ(ScoresOf(client).size(), 19u);
  EXPECT_TRUE(TokensOf(client).empty());
  EXPECT_EQ(client.end().finish, FinishReason::kLength);
  EXPECT_EQ(client.end().usage.n_prompt, 20);
  EXPECT_EQ(client.end().usage.n_completion, 0);
  EXPECT_TRUE(ScoresOf(shortest).empty());
  EXPECT_EQ(shortest.end().finish, FinishReason::kLength);
}

TEST_F(ScoringTest, SamplingDoesNotChangeTheScores) {
  Start();
  Listener& plain = Submit(AskForScores(1, CountedPrompt(9), 1));
  wire::GenerateRequest request = AskForScores(2, CountedPrompt(9), 1);
  request.sampling.temperature = 2;
  request.sampling.top_k = 1;
  request.sampling.repetition_penalty = 2;
  request.sampling.logit_bias = {{.token = TokenId(3), .bias = 100}};
  Listener& steered = Submit(std::move(request));
  RunAt(At(0));
  const std::vector<wire::TokenLogprob> a = ScoresOf(plain);
  const std::vector<wire::TokenLogprob> b = ScoresOf(steered);
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_EQ(a[i].logprob, b[i].logprob);
}

TEST_F(ScoringTest, AStepScoresNoMoreThanItsRowsOfLogits) {
  Start(LongParams());
  Listener& a = Submit(AskForScores(1, CountedPrompt(200), 0));
  Listener& b = Submit(AskForScores(2, CountedPrompt(100), 0));
  Listener& plain = Submit(Ask(3, CountedPrompt(150), 1));
  engine->Step(At(0));
  DrainAll();
  EXPECT_EQ(ScoresOf(a).size(), static_cast<size_t>(kMaxScoredRows));
  EXPECT_TRUE(ScoresOf(b).empty()) << "the older one has all of them";
  EXPECT_TRUE(plain.ended()) << "it needs none";
  RunAt(At(1));
  EXPECT_EQ(ScoresOf(a).size(), 199u);
  EXPECT_EQ(ScoresOf(b).size(), 99u);
}

TEST_F(ScoringTest, ScoresWaitForAClientThatDoesNotRead) {
  Engine::Params params = LongParams();
  params.n_prompt_rows = 4;
  Start(params);
  Listener& client = Submit(AskForScores(1, CountedPrompt(200), 1));
  while (engine->Step(At(0)) <= At(0)) {
  }
  client.Drain();
  EXPECT_EQ(client.events.size(), wire::kQueuedEvents);
  RunAt(At(1));
  EXPECT_EQ(ScoresOf(client).size(), 199u);
  EXPECT_EQ(CountPieces(client), 50u);
  EXPECT_TRUE(client.end().status.ok());
}

TEST_F(ScoringTest, ACancelInTheMiddleEndsIt) {
  Engine::Params params = LongParams();
  params.n_prompt_rows = 8;
  Start(params);
  Listener& client = Submit(AskForScores(1, CountedPrompt(200), 1));
  for (int i = 0; i < 3; ++i) engine->Step(At(0));
  engine->Cancel(RequestId(1));
  RunAt(At(1));
  EXPECT_EQ(ScoresOf(client).size(), 24u);
  EXPECT_EQ(client.end().status.code(), ErrorCode::kCancelled);
  EXPECT_TRUE(engine->idle());
}

TEST_F(ScoringTest, ARowThatIsNoNumberEndsTheRequestAlone) {
  Start();
  std::vector<TokenId> prompt = CountedPrompt(20);
  prompt[11] = CountingModel::kSick;
  Listener& sick = Submit(AskForScores(1, prompt, 5));
  Listener& unscored = Submit(Ask(2, prompt, 1));
  Listener& well = Submit(AskForScores(3, CountedPrompt(20), 1));
  RunAt(At(0));
  EXPECT_EQ(sick.end().status.code(), ErrorCode::kInternal);
  EXPECT_LT(ScoresOf(sick).size(), 12u);
  EXPECT_TRUE(unscored.end().status.ok());
  EXPECT_EQ(ScoresOf(well).size(), 19u);
}

TEST_F(ScoringTest, AScoredPromptSharesNothing) {
  Start(LongParams());
  Submit(Ask(1, CountedPrompt(200), 1));
  RunAt(At(0));
  Listener& scored = Submit(AskForScores(2, CountedPrompt(200), 1));
  Listener& choice = Submit(AskForScores(3, CountedPrompt(200), 1));
  RunAt(At(1));
  for (const Listener* client : {&scored, &choice}) {
    EXPECT_EQ(ScoresOf(*client).size(), 199u) << "rows that were found have no logits";
    EXPECT_EQ(client->end().usage.n_cached, 0);
  }
  EXPECT_EQ(engine->batch()->counts().n_forked, 0);

  // Nor do others find what it computed.
  Submit(AskForScores(4, CountedPrompt(300), 0));
  RunAt(At(2));
  std::vector<TokenId> longer = CountedPrompt(300);
  longer.erase(longer.begin());
  Submit(AskForScores(5, longer, 0));
  RunAt(At(3));
  Listener& later = Submit(Ask(6, longer, 1));
  RunAt(At(4));
  EXPECT_EQ(later.end().usage.n_cached, 0);
}

TEST_F(ScoringTest, WhoGaveWayTellsNoScoreTwice) {
  Engine::Params params = LongParams();
  params.n_prompt_rows = 2;
  params.n_blocks = 10;  // one sequence of full length
  Start(params);
  wire::GenerateRequest older = Ask(1, CountedPrompt(60), 400);
  older.sampling.logit_bias = {{.token = TokenId(5), .bias = 100}};  // it never ends by itself
  Listener& first = Submit(std::move(older));
  engine->Step(At(0));
  Listener& scored = Submit(AskForScores(2, CountedPrompt(500), 1));
  for (int ms = 1; !engine->idle(); ++ms) {
    engine->Step(At(ms));
    DrainAll();
    ASSERT_LT(ms, 10'000);
  }
  EXPECT_TRUE(first.end().status.ok());
  EXPECT_GT(engine->batch()->counts().n_preempted, 0);
  const std::vector<wire::TokenLogprob> scores = ScoresOf(scored);
  ASSERT_EQ(scores.size(), 499u);
  for (size_t i = 0; i < scores.size(); ++i) {
    EXPECT_EQ(scores[i].rank, (i + 1) % 70 == 0 ? 3 : 1) << "token " << i + 1;
  }
}

}  // namespace
}  // namespace sluice::engine
