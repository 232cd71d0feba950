// What the engine does with requests, over a model that counts.

#include "engine/engine.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

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
