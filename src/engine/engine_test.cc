// What the engine does with requests, over a model that counts.

#include "engine/engine.h"

#include <gtest/gtest.h>

#include <climits>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine_test_impl.h"

namespace sluice::engine {
namespace {

using wire::FinishReason;

class EngineTest : public testing::Test, protected EngineInVirtualTime {};

TEST_F(EngineTest, GeneratesUntilTheEndTokenWhichIsNeitherSentNorCounted) {
  Start();
  Listener& client = Submit(Ask(1, {TokenId(5), TokenId(95)}, 50));
  RunAt(At(0));
  EXPECT_EQ(TokensOf(client), Counting(96, 3));
  EXPECT_EQ(client.end().finish, FinishReason::kEnd);
  EXPECT_TRUE(client.end().status.ok());
  EXPECT_EQ(client.end().usage.n_prompt, 2);
  EXPECT_EQ(client.end().usage.n_cached, 0);
  EXPECT_EQ(client.end().usage.n_completion, 3);
}

TEST_F(EngineTest, TheLimitEndsWithItsLastToken) {
  Start();
  Listener& client = Submit(Ask(1, TokenId(10), 3));
  RunAt(At(0));
  EXPECT_EQ(TokensOf(client), Counting(11, 3));
  EXPECT_EQ(client.events.size(), 3u);
  EXPECT_EQ(client.end().finish, FinishReason::kLength);
  EXPECT_EQ(client.end().usage.n_completion, 3);
}

TEST_F(EngineTest, TheContextIsALimitToo) {
  Start();
  // The last token generated needs no room: it does not go through the model.
  Listener& client =
      Submit(Ask(1, std::vector<TokenId>(CountingModel::kContext - 2, TokenId(10)), 50));
  Listener& full = Submit(Ask(2, std::vector<TokenId>(CountingModel::kContext, TokenId(20)), 50));
  RunAt(At(0));
  EXPECT_EQ(TokensOf(client), Counting(11, 3));
  EXPECT_EQ(client.end().finish, FinishReason::kLength);
  EXPECT_EQ(TokensOf(full), Counting(21, 1));
}

TEST_F(EngineTest, AStopIdEndsUnsentAndUncounted) {
  Start();
  wire::GenerateRequest request = Ask(1, TokenId(10), 50);
  request.stop_ids = {TokenId(70), TokenId(13)};
  Listener& client = Submit(std::move(request));
  RunAt(At(0));
  EXPECT_EQ(TokensOf(client), Counting(11, 2));
  EXPECT_EQ(client.end().finish, FinishReason::kStopId);
  EXPECT_EQ(client.end().usage.n_completion, 2);
}

TEST_F(EngineTest, AStepTakesOneRowOfEachRunningSequenceAndPiecesOfPrompts) {
  Start({.max_running = 3, .n_context = CountingModel::kContext, .n_prompt_rows = 5});
  Submit(Ask(1, TokenId(10), 20));
  engine->Step(At(0));  // the first one has drawn
  Submit(Ask(2, std::vector<TokenId>(9, TokenId(20)), 20));
  Submit(Ask(3, std::vector<TokenId>(4, TokenId(30)), 20));
  for (int i = 0; i < 3; ++i) engine->Step(At(0));
  const std::vector<std::vector<int32_t>> want = {{1}, {1, 3, 2}, {1, 3, 2}, {1, 1, 3}};
  EXPECT_EQ(steps, want) << "5 rows of prompts, half of them of the older one";
}

TEST_F(EngineTest, RequestsBeyondTheSlotsWaitInOrder) {
  Start({.max_running = 1,
         .max_waiting = 2,
         .n_context = CountingModel::kContext,
         .n_prompt_rows = 8});
  Listener& a = Submit(Ask(1, TokenId(10), 2));
  Listener& b = Submit(Ask(2, TokenId(20), 2));
  Listener& c = Submit(Ask(3, TokenId(30), 2));
  EXPECT_EQ(Refusal(Ask(4, TokenId(40), 2)).code(), ErrorCode::kOverloaded);
  for (int i = 0; i < 2; ++i) engine->Step(At(0));
  DrainAll();
  EXPECT_TRUE(a.ended());
  EXPECT_TRUE(b.events.empty());
  for (int i = 0; i < 2; ++i) engine->Step(At(0));
  DrainAll();
  EXPECT_TRUE(b.ended());
  EXPECT_TRUE(c.events.empty());
  RunAt(At(0));
  EXPECT_EQ(TokensOf(c), Counting(31, 2));
}

TEST_F(EngineTest, CancelAndDeadlineFreeTheSlotWithinOneStep) {
  Start({.max_running = 2,
         .max_waiting = 2,
         .n_context = CountingModel::kContext,
         .n_prompt_rows = 2});
  wire::GenerateRequest late = Ask(1, TokenId(1), 50);
  late.deadline = At(10);
  Listener& late_client = Submit(std::move(late));
  Listener& cancelled = Submit(Ask(2, std::vector<TokenId>(40, TokenId(20)), 9));
  Listener& third = Submit(Ask(3, TokenId(30), 2));
  Listener& fourth = Submit(Ask(4, TokenId(40), 2));
  engine->Step(At(0));
  EXPECT_EQ(engine->Load().n_running, 2);
  EXPECT_EQ(engine->Load().n_waiting, 2);
  engine->Cancel(RequestId(2));  // in the middle of its prompt
  engine->Step(At(10));
  DrainAll();
  EXPECT_EQ(late_client.end().status.code(), ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(late_client.end().usage.n_completion, 1);
  EXPECT_EQ(cancelled.end().status.code(), ErrorCode::kCancelled);
  EXPECT_EQ(cancelled.end().usage.n_completion, 0);
  EXPECT_EQ(TokensOf(third), Counting(31, 1)) << "it ran in the same step";
  EXPECT_EQ(TokensOf(fourth), Counting(41, 1));
}

TEST_F(EngineTest, AClientThatDoesNotReadStopsItsOwnSequenceOnly) {
  Start();
  Listener& slow = Submit(Ask(1, TokenId(1), 30));
  Listener& fast = Submit(Ask(2, TokenId(40), 30));
  for (int step = 1; step <= 30; ++step) {
    engine->Step(At(0));
    fast.Drain();
    ASSERT_EQ(fast.events.size(), static_cast<size_t>(step)) << "a token each step, as if alone";
  }
  EXPECT_TRUE(fast.ended());
  EXPECT_EQ(engine->Step(At(0)), At(0) + wire::RequestDesk::kHeartbeat) << "it must not spin";
  EXPECT_EQ(engine->Load().n_running, 1) << "a paused sequence keeps its slot";
  slow.Drain();
  EXPECT_EQ(slow.events.size(), wire::kQueuedEvents);
  RunAt(At(0));
  EXPECT_EQ(TokensOf(slow), Counting(2, 30));
  EXPECT_EQ(slow.end().finish, FinishReason::kLength);
}

TEST_F(EngineTest, APausedSequenceObeysCancelAndDeadline) {
  Start();
  wire::GenerateRequest late = Ask(1, TokenId(1), 50);
  late.deadline = At(50);
  Listener& late_client = Submit(std::move(late));
  Listener& cancelled = Submit(Ask(2, TokenId(1), 50));
  while (engine->Step(At(0)) <= At(0)) {
  }
  engine->Cancel(RequestId(2));
  EXPECT_EQ(engine->Step(At(1)), At(50));
  engine->Step(At(50));
  EXPECT_TRUE(engine->idle());
  DrainAll();
  EXPECT_EQ(late_client.end().status.code(), ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(cancelled.end().status.code(), ErrorCode::kCancelled);
  EXPECT_EQ(TokensOf(cancelled).size(), wire::kQueuedEvents);
}

TEST_F(EngineTest, LogitsThatAreNoNumbersEndThatRequestAlone) {
  Start();
  Listener& sick = Submit(Ask(1, TokenId(CountingModel::kSick.value - 2), 50));
  Listener& well = Submit(Ask(2, TokenId(10), 9));
  RunAt(At(0));
  EXPECT_EQ(sick.end().status.code(), ErrorCode::kInternal);
  EXPECT_EQ(TokensOf(sick), Counting(CountingModel::kSick.value - 1, 2));
  EXPECT_EQ(TokensOf(well), Counting(11, 9));
  EXPECT_EQ(well.end().finish, FinishReason::kLength);
}

TEST_F(EngineTest, WhatTheModelCannotRunIsRefusedByName) {
  Start();
  const Status empty = Refusal(Ask(1, std::vector<TokenId>(), 5));
  EXPECT_EQ(empty.code(), ErrorCode::kInvalidArgument);
  const Status too_long =
      Refusal(Ask(2, std::vector<TokenId>(CountingModel::kContext + 1, TokenId(1)), 5));
  EXPECT_EQ(too_long.code(), ErrorCode::kContextLength);
  for (int32_t id : {-1, CountingModel::kVocab}) {
    const Status foreign = Refusal(Ask(3, {TokenId(1), TokenId(id)}, 5));
    EXPECT_EQ(foreign.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(foreign.message().find(std::to_string(id)), std::string_view::npos);

    wire::GenerateRequest biased = Ask(4, TokenId(1), 5);
    biased.sampling.logit_bias = {{.token = TokenId(id), .bias = 1}};
    EXPECT_EQ(Refusal(std::move(biased)).param(), "logit_bias");
  }
  EXPECT_TRUE(engine->idle());
}

TEST_F(EngineTest, BiasAndPenaltiesSteerTheDraw) {
  Start();
  wire::GenerateRequest biased = Ask(1, TokenId(10), 2);
  biased.sampling.logit_bias = {{.token = TokenId(60), .bias = 60}};
  Listener& biased_client = Submit(std::move(biased));
  // Only what was generated counts, not the prompt: first 11 is the best, then it is not.
  wire::GenerateRequest penalised = Ask(2, {TokenId(11), TokenId(11)}, 4);
  penalised.sampling.logit_bias = {{.token = TokenId(12), .bias = -50},
                                   {.token = TokenId(11), .bias = 1},
                                   {.token = TokenId(20), .bias = 0.5}};
  penalised.sampling.presence_penalty = 0.75;
  Listener& penalised_client = Submit(std::move(penalised));
  RunAt(At(0));
  EXPECT_EQ(TokensOf(biased_client), (std::vector<int32_t>{60, 60}));
  EXPECT_EQ(TokensOf(penalised_client), (std::vector<int32_t>{11, 20, 21, 22}));
}

TEST_F(EngineTest, LogprobsAreOfTheModelsOwnLogitsOnePerToken) {
  Start(Defaults(), /*lead=*/2);
  wire::GenerateRequest request = Ask(1, TokenId(10), 2);
  request.sampling.logprobs = true;
  request.sampling.n_top_logprobs = 2;
  request.sampling.logit_bias = {{.token = TokenId(60), .bias = 60}};
  Listener& client = Submit(std::move(request));
  RunAt(At(0));
  const double log_sum = std::log(std::exp(2.0) + CountingModel::kVocab - 1);
  for (const wire::TokenEvent& event : client.events) {
    ASSERT_EQ(event.logprobs.size(), 1u);
    EXPECT_FLOAT_EQ(event.logprobs[0].logprob, static_cast<float>(-log_sum));
    ASSERT_EQ(event.logprobs[0].alternatives.size(), 2u);
    EXPECT_FLOAT_EQ(event.logprobs[0].alternatives[0].logprob, static_cast<float>(2 - log_sum));
  }
  EXPECT_EQ(client.events[0].logprobs[0].alternatives[0].token, TokenId(11));
  EXPECT_EQ(client.events[1].logprobs[0].alternatives[0].token, TokenId(61));
}

TEST_F(EngineTest, ARequestWithoutASeedGetsOneFromTheEnginesAndItsId) {
  const auto answers = [this](uint64_t engine_seed) {
    Engine::Params params = Defaults();
    params.seed = engine_seed;
    Start(params, /*lead=*/0);
    std::vector<std::vector<int32_t>> tokens;
    for (uint64_t id : {1, 2}) {
      wire::GenerateRequest request = Ask(id, TokenId(10), 8);
      request.sampling.temperature = 1;
      Listener& client = Submit(std::move(request));
      RunAt(At(0));
      tokens.push_back(TokensOf(client));
    }
    return tokens;
  };
  const std::vector<std::vector<int32_t>> first = answers(1);
  EXPECT_NE(first[0], first[1]);
  EXPECT_EQ(answers(1), first);
  EXPECT_NE(answers(2)[0], first[0]);
}

TEST_F(EngineTest, TopKOfOneIsTheLikeliestTokenAtAnyTemperature) {
  Start(Defaults(), /*lead=*/0.5f);
  wire::GenerateRequest request = Ask(1, TokenId(10), 8);
  request.sampling.temperature = 2;
  request.sampling.top_k = 1;
  Listener& client = Submit(std::move(request));
  RunAt(At(0));
  EXPECT_EQ(TokensOf(client), Counting(11, 8));
}

TEST_F(EngineTest, C44AStopIdThatIsNoTokenIsRefusedByName) {
  Start();
  for (int32_t id : {-1, CountingModel::kVocab, CountingModel::kVocab + 1, INT32_MAX}) {
    wire::GenerateRequest request = Ask(1, TokenId(1), 5);
    request.stop_ids = {TokenId(id)};
    request.sampling.n_min = 2;
    EXPECT_EQ(Refusal(std::move(request)).param(), "stop_token_ids");
  }
  EXPECT_TRUE(engine->idle());
}

TEST_F(EngineTest, EndsWaitForTheMinimumLength) {
  Start();
  wire::GenerateRequest request = Ask(1, TokenId(94), 8);
  request.stop_ids = {TokenId(96)};
  request.sampling.n_min = 6;
  request.sampling.logprobs = true;
  Listener& client = Submit(std::move(request));
  RunAt(At(0));
  // 96 may not follow 95, so the lowest of what is left does; then it goes on from there.
  EXPECT_EQ(TokensOf(client), (std::vector<int32_t>{95, 0, 1, 2, 3, 4, 5, 6}));
  EXPECT_LT(client.events[1].logprobs[0].logprob, -40) << "what is told is what the model says";
  wire::GenerateRequest second = Ask(2, TokenId(94), 50);
  second.stop_ids = {TokenId(96)};
  second.sampling.n_min = 1;
  Listener& second_client = Submit(std::move(second));
  RunAt(At(0));
  EXPECT_EQ(TokensOf(second_client), Counting(95, 1));
  EXPECT_EQ(second_client.end().finish, FinishReason::kStopId);
}

TEST_F(EngineTest, BannedTokensAreNeverDrawnAndTheEndTokenStaysOne) {
  Engine::Params params = Defaults();
  params.banned = {TokenId(12), TokenId(13), CountingModel::kEnd};
  Start(params, /*lead=*/2);
  std::vector<Listener*> clients;
  for (uint64_t id = 1; id <= 4; ++id) {
    wire::GenerateRequest request = Ask(id, TokenId(11), 50);
    request.sampling.temperature = 2;
    request.sampling.seed = id;
    request.sampling.logprobs = id % 2 == 0;
    request.sampling.n_top_logprobs = 1;
    request.sampling.logit_bias = {{.token = TokenId(12), .bias = 100},
                                   {.token = TokenId(10), .bias = 3}};
    clients.push_back(&Submit(std::move(request)));
  }
  RunAt(At(0));
  for (const Listener* client : clients) {
    for (const int32_t token : TokensOf(*client)) EXPECT_TRUE(token != 12 && token != 13);
  }
  EXPECT_EQ(clients[1]->events[0].logprobs[0].alternatives[0].token, TokenId(12))
      << "what is told is what the model says";
  Listener& ending = Submit(Ask(9, TokenId(CountingModel::kEnd.value - 2), 50));
  RunAt(At(0));
  EXPECT_EQ(ending.end().finish, FinishReason::kEnd);
}

TEST_F(EngineTest, ARequestThatHasNoTokenLeftEndsAlone) {
  Start();
  wire::GenerateRequest request = Ask(1, TokenId(10), 50);
  for (int32_t id = 0; id < CountingModel::kVocab; ++id) request.stop_ids.push_back(TokenId(id));
  request.sampling.n_min = 1;
  Listener& stuck = Submit(std::move(request));
  Listener& well = Submit(Ask(2, TokenId(10), 9));
  RunAt(At(0));
  EXPECT_EQ(stuck.end().status.code(), ErrorCode::kInvalidArgument);
  EXPECT_NE(stuck.end().status.message().find("min_tokens"), std::string_view::npos);
  EXPECT_EQ(TokensOf(well), Counting(11, 9));
}

TEST_F(EngineTest, ARepetitionPenaltyCountsThePromptToo) {
  Start(Defaults(), /*lead=*/2);
  wire::GenerateRequest request = Ask(1, {TokenId(12), TokenId(11)}, 3);
  request.sampling.repetition_penalty = 1.5;
  request.sampling.logit_bias = {{.token = TokenId(40), .bias = 1.5}};
  Listener& client = Submit(std::move(request));
  RunAt(At(0));
  // 2 / 1.5 is below 1.5; behind 40 its own bias is a repetition and 41 leads.
  EXPECT_EQ(TokensOf(client), (std::vector<int32_t>{40, 41, 42}));
}

TEST_F(EngineTest, MinPCutsWhatIsFarFromTheLikeliest) {
  Start(Defaults(), /*lead=*/2);
  wire::GenerateRequest request = Ask(1, TokenId(10), 20);
  request.sampling.temperature = 1;
  request.sampling.min_p = 0.2;  // the others have e^-2 of its probability
  Listener& client = Submit(std::move(request));
  RunAt(At(0));
  EXPECT_EQ(TokensOf(client), Counting(11, 20));
}

// vllm#5639: "the order of requests in a batch changes what they sample".
TEST_F(EngineTest, C38TheOrderInABatchDoesNotMatter) {
  const auto penalised = [] {
    wire::GenerateRequest request = Ask(1, {TokenId(11), TokenId(30)}, 12);
    request.sampling.temperature = 1;
    request.sampling.seed = 5;
    request.sampling.repetition_penalty = 1.8;
    return request;
  };
  const auto seeded = [] {
    wire::GenerateRequest request = Ask(2, {TokenId(11), TokenId(10)}, 12);
    request.sampling.temperature = 1;
    request.sampling.seed = 6;
    request.sampling.top_k = 1;
    return request;
  };
  const auto answers = [this](std::vector<wire::GenerateRequest> requests) {
    Start(Defaults(), /*lead=*/3);
    std::map<uint64_t, std::vector<int32_t>> tokens;
    std::vector<std::pair<uint64_t, Listener*>> clients;
    for (wire::GenerateRequest& request : requests) {
      const uint64_t id = request.id.value;
      clients.emplace_back(id, &Submit(std::move(request)));
    }
    RunAt(At(0));
    for (const auto& [id, client] : clients) tokens[id] = TokensOf(*client);
    return tokens;
  };
  auto alone = answers({penalised()});
  alone.merge(answers({seeded()}));
  EXPECT_EQ(alone[2], Counting(11, 12));
  EXPECT_EQ(answers({penalised(), seeded()}), alone);
  EXPECT_EQ(answers({seeded(), penalised()}), alone);
}

// TensorRT-LLM#17599: "shared engine seed".
TEST_F(EngineTest, C39ASeedGivesTheSameTokensWhateverElseRuns) {
  const auto answer = [this](uint64_t engine_seed, int32_t n_others) {
    Engine::Params params = Defaults();
    params.seed = engine_seed;
    Start(params, /*lead=*/1);
    for (int32_t i = 0; i < n_others; ++i) {
      wire::GenerateRequest other = Ask(100 + static_cast<uint64_t>(i), TokenId(20 + i), 7 + i);
      other.sampling.temperature = 1;
      if (i == 0) other.sampling.seed = 1;
      Submit(std::move(other));
      engine->Step(At(0));
    }
    wire::GenerateRequest request = Ask(engine_seed, TokenId(10), 20);
    request.sampling.temperature = 1;
    request.sampling.seed = 77;
    Listener& client = Submit(std::move(request));
    RunAt(At(0));
    return TokensOf(client);
  };
  const std::vector<int32_t> first = answer(1, 0);
  EXPECT_EQ(answer(2, 1), first);
  EXPECT_EQ(answer(3, 3), first);
}

// sglang#5984: "-inf becomes 500".
TEST_F(EngineTest, C42LogprobsAreThoseBeforeTheCutAndFinite) {
  Engine::Params params = Defaults();
  params.banned = {TokenId(0), TokenId(2)};
  Start(params, /*lead=*/4);
  wire::GenerateRequest request = Ask(1, TokenId(10), 20);
  request.sampling.temperature = 1;
  request.sampling.top_p = 0.3;
  request.sampling.logprobs = true;
  request.sampling.n_top_logprobs = 5;
  request.sampling.n_min = 20;
  Listener& client = Submit(std::move(request));
  RunAt(At(0));
  ASSERT_EQ(TokensOf(client), Counting(11, 20));
  const double log_sum = std::log(std::exp(4.0) + CountingModel::kVocab - 1);
  for (const wire::TokenEvent& event : client.events) {
    const std::vector<wire::TokenLogprob::Alternative>& told = event.logprobs[0].alternatives;
    ASSERT_EQ(told.size(), 5u);
    EXPECT_EQ(told[0].token, event.tokens[0]);
    EXPECT_FLOAT_EQ(told[0].logprob, static_cast<float>(4 - log_sum));
    for (int32_t i = 1; i < 5; ++i) {
      EXPECT_EQ(told[static_cast<size_t>(i)].token, TokenId(i - 1));
      EXPECT_FLOAT_EQ(told[static_cast<size_t>(i)].logprob, static_cast<float>(-log_sum));
    }
  }
}

TEST_F(EngineTest, ShutdownEndsWhatWaitsAndWhatRunsAndClosesTheDoor) {
  Start({.max_running = 1,
         .max_waiting = 2,
         .n_context = CountingModel::kContext,
         .n_prompt_rows = 8});
  Listener& running = Submit(Ask(1, TokenId(10), 20));
  engine->Step(At(0));
  Listener& waiting = Submit(Ask(2, TokenId(10), 20));
  engine->CancelAll();
  EXPECT_TRUE(engine->idle());
  DrainAll();
  EXPECT_EQ(running.end().status.code(), ErrorCode::kOverloaded);
  EXPECT_EQ(waiting.end().status.code(), ErrorCode::kOverloaded);
  EXPECT_EQ(Refusal(Ask(3, TokenId(10), 20)).code(), ErrorCode::kOverloaded);
}

}  // namespace
}  // namespace sluice::engine
