// Classes of requests in the engine: who gives way when blocks run out, and that nobody does for
// ever. Over a model that counts.

#include <gtest/gtest.h>

#include <vector>

#include "engine/engine_test_impl.h"

namespace sluice::engine {
namespace {

using wire::RequestClass;

// A pool of nine blocks: one sequence of full length and a bit.
class ClassTest : public testing::Test, protected EngineInVirtualTime {
 protected:
  ClassTest() {
    Engine::Params params = Defaults();
    params.n_context = 512;
    params.n_prompt_rows = 512;
    params.n_blocks = 9;
    params.prefix_cache = false;
    Start(params);
  }
  struct AskParams {
    RequestClass request_class;
    int32_t n_prompt;
    int32_t n_max;
  };
  Listener& Submit(const AskParams& params) {
    std::vector<TokenId> prompt(static_cast<size_t>(params.n_prompt), TokenId(1));
    wire::GenerateRequest request = Ask(++n_submitted, std::move(prompt), params.n_max);
    request.request_class = params.request_class;
    return EngineInVirtualTime::Submit(std::move(request));
  }
  void Step() {
    engine->Step(At(now_ms++));
    DrainAll();
  }
  int64_t n_preempted() const { return engine->batch()->counts().n_preempted; }

  uint64_t n_submitted = 0;
  int64_t now_ms = 0;
};

TEST_F(ClassTest, BulkGivesItsBlocksToAnInteractiveRequest) {
  std::vector<Listener*> bulk;
  for (int i = 0; i < 3; ++i) bulk.push_back(&Submit({RequestClass::kBulk, 150, 30}));
  Step();
  Listener& interactive = Submit({RequestClass::kInteractive, 440, 5});
  for (int i = 0; i < 3; ++i) Step();
  EXPECT_EQ(interactive.events.size(), 1u) << "its first token, one victim a step";
  EXPECT_EQ(n_preempted(), 3);
  while (!engine->idle()) Step();
  EXPECT_EQ(TokensOf(interactive), Counting(2, 5));
  for (Listener* client : bulk) EXPECT_EQ(TokensOf(*client), Counting(2, 30));
}

// The other way round nobody gives way: it waits for blocks that the others do not need.
TEST_F(ClassTest, AnInteractiveSequenceGivesNothingToBulk) {
  Listener& interactive = Submit({RequestClass::kInteractive, 400, 30});
  Step();
  Listener& bulk = Submit({RequestClass::kBulk, 200, 1});
  while (!interactive.ended()) {
    Step();
    ASSERT_TRUE(interactive.ended() || !bulk.ended());
  }
  while (!engine->idle()) Step();
  EXPECT_EQ(n_preempted(), 0);
  EXPECT_EQ(TokensOf(bulk), Counting(2, 1));
}

TEST_F(ClassTest, NobodyGivesWayToWhoComesLaterInItsClass) {
  Listener& first = Submit({RequestClass::kDefault, 400, 30});
  Step();
  Listener& second = Submit({RequestClass::kDefault, 200, 1});
  while (!engine->idle()) Step();
  EXPECT_EQ(n_preempted(), 0);
  EXPECT_EQ(TokensOf(first), Counting(2, 30));
  EXPECT_EQ(TokensOf(second), Counting(2, 1));
}

// Three sequences grow until the pool is full. The oldest is of the lowest class.
TEST_F(ClassTest, TheVictimIsTheYoungestOfTheLowestClass) {
  Listener& bulk = Submit({RequestClass::kBulk, 130, 60});
  Listener& first = Submit({RequestClass::kDefault, 150, 60});
  Listener& second = Submit({RequestClass::kDefault, 150, 60});
  Step();
  while (n_preempted() == 0) Step();
  const size_t n_bulk = bulk.events.size();
  const size_t n_first = first.events.size();
  const size_t n_second = second.events.size();
  Step();
  EXPECT_EQ(bulk.events.size(), n_bulk) << "it waits";
  EXPECT_EQ(first.events.size(), n_first + 1);
  EXPECT_EQ(second.events.size(), n_second + 1);
  while (!engine->idle()) Step();
  EXPECT_EQ(TokensOf(bulk), Counting(2, 60));
}

// Interactive requests that need the whole pool come without end.
TEST_F(ClassTest, BulkIsNotPassedOverForEver) {
  Listener& bulk = Submit({RequestClass::kBulk, 300, 20});
  Listener* newest = &Submit({RequestClass::kInteractive, 440, 3});
  const Time patience = Time{} + kRankPatience;
  int64_t n_steps = 0;
  while (!bulk.ended()) {
    if (newest->ended()) newest = &Submit({RequestClass::kInteractive, 440, 3});
    Step();
    ASSERT_LT(++n_steps, 11'000);
    ASSERT_TRUE(At(now_ms) > patience || !bulk.ended());
  }
  EXPECT_EQ(TokensOf(bulk), Counting(2, 20));
  while (!engine->idle()) Step();
}

// An older one of the same class that nobody reads gives its blocks away, and goes on when its
// client reads again.
TEST_F(ClassTest, WhoseClientDoesNotReadHoldsUpNobody) {
  Listener& slow = Submit({RequestClass::kInteractive, 300, 70});
  for (int i = 0; i < 100; ++i) engine->Step(At(now_ms++));
  ASSERT_FALSE(slow.ended());
  Listener& other = Submit({RequestClass::kInteractive, 400, 3});
  for (int i = 0; i < 50 && !other.ended(); ++i) {
    engine->Step(At(now_ms++));
    other.Drain();
  }
  EXPECT_EQ(TokensOf(other), Counting(2, 3));
  EXPECT_EQ(n_preempted(), 1);
  while (!engine->idle()) Step();
  EXPECT_EQ(TokensOf(slow), Counting(2, 70));
}

// Rows of prompts are short and interactive ones come without end, two at a time.
TEST_F(ClassTest, ABulkPromptGetsRowsInTheEnd) {
  Engine::Params params = Defaults();
  params.n_context = 512;
  params.n_prompt_rows = 4;
  params.prefix_cache = false;
  Start(params);
  Listener& bulk = Submit({RequestClass::kBulk, 40, 2});
  std::vector<Listener*> newest(2);
  int64_t n_steps = 0;
  while (!bulk.ended()) {
    for (Listener*& client : newest) {
      if (client == nullptr || client->ended()) {
        client = &Submit({RequestClass::kInteractive, 8, 1});
      }
    }
    Step();
    ASSERT_LT(++n_steps, 11'000);
  }
  EXPECT_EQ(TokensOf(bulk), Counting(2, 2));
  while (!engine->idle()) Step();
}

// What an interactive prompt shares with a bulk one that may not move is computed again.
TEST_F(ClassTest, NobodyWaitsForTheRowsOfAClassBelow) {
  Engine::Params params = Defaults();
  params.n_context = 512;
  params.n_prompt_rows = 100;
  Start(params);
  Submit({RequestClass::kBulk, 400, 2});
  Step();
  Listener& interactive = Submit({RequestClass::kInteractive, 200, 2});
  for (int i = 0; i < 3; ++i) Step();
  EXPECT_FALSE(interactive.events.empty());
  while (!engine->idle()) Step();
}

// Of two equal prompts of a class below the second one waits for the first; it is not raised for
// it.
TEST_F(ClassTest, WhoWaitsForATwinIsNotPassedOver) {
  Engine::Params params = Defaults();
  params.n_context = 512;
  params.n_prompt_rows = 1;
  Start(params);
  Submit({RequestClass::kBulk, 500, 3});
  Listener& twin = Submit({RequestClass::kBulk, 500, 3});
  const Time patience = Time{} + kRankPatience;
  for (now_ms = 0; At(now_ms) < patience; now_ms += 100) engine->Step(At(now_ms));
  Listener& fresh = Submit({RequestClass::kDefault, 20, 1});
  for (int i = 0; i < 60 && !fresh.ended(); ++i) Step();
  EXPECT_TRUE(fresh.ended());
  EXPECT_FALSE(twin.ended());
  while (!engine->idle()) Step();
}

}  // namespace
}  // namespace sluice::engine
