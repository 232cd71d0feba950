// What the engine computes and what it finds, over a model that counts: prefixes, forks, blocks
// that run out, and who waits for whom.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/engine_test_impl.h"

namespace sluice::engine {
namespace {

class PrefixTest : public testing::Test, protected EngineInVirtualTime {
 protected:
  static Engine::Params Params() {
    Engine::Params params = Defaults();
    params.n_context = 512;
    params.n_prompt_rows = 512;
    return params;
  }
  // Rows that a request needs, run to its end.
  int32_t RowsOf(wire::GenerateRequest request) {
    const int32_t before = Rows();
    last = &Submit(std::move(request));
    RunAt(At(++now_ms));
    SLUICE_CHECK(last->ended() && last->end().status.ok());
    return Rows() - before;
  }
  int32_t CachedOfLast() { return last->end().usage.n_cached; }

  Listener* last = nullptr;
  int64_t now_ms = 0;
};

TEST_F(PrefixTest, TheSamePromptRunsItsLastRowsOnly) {
  Start(Params());
  EXPECT_EQ(RowsOf(Ask(1, Prompt(201), 1)), 201);
  EXPECT_EQ(CachedOfLast(), 0);
  EXPECT_EQ(RowsOf(Ask(2, Prompt(201), 1)), 1) << "three blocks and eight rows of the fourth";
  EXPECT_EQ(CachedOfLast(), 200);
  EXPECT_EQ(RowsOf(Ask(3, Prompt(200), 1)), 2) << "a hit is even, and one row draws";
  EXPECT_EQ(CachedOfLast(), 198);
}

TEST_F(PrefixTest, TheNextTurnRunsWhatIsNewOfIt) {
  Start(Params());
  EXPECT_EQ(RowsOf(Ask(1, Prompt(120), 20)), 120 + 19);
  std::vector<TokenId> next = Prompt(120);
  for (const int32_t token : TokensOf(*last)) next.emplace_back(token);
  for (int i = 0; i < 10; ++i) next.emplace_back(7);
  EXPECT_EQ(RowsOf(Ask(2, next, 1)), 10 + 2) << "all but the last token drawn was stored; even";
  EXPECT_EQ(CachedOfLast(), 138);
}

// C54, C55: turns that go another way begin where they part, wherever that is in a block.
TEST_F(PrefixTest, C55APromptGoesOnWhereItParts) {
  Start(Params());
  RowsOf(Ask(1, Prompt(400), 1));
  for (const int32_t n_common : {390, 321, 320, 101, 64, 3}) {
    std::vector<TokenId> other = Prompt(n_common);
    other.resize(410, TokenId(60));
    EXPECT_EQ(RowsOf(Ask(static_cast<uint64_t>(1000 + n_common), other, 1)), 410 - (n_common & ~1));
  }
}

// S16: what one tenant has computed is nothing that another one can notice.
TEST_F(PrefixTest, S16TenantsDoNotShare) {
  Start(Params());
  RowsOf(Ask(1, Prompt(200), 1));
  wire::GenerateRequest other = Ask(2, Prompt(200), 1);
  other.tenant = TenantId(1);
  EXPECT_EQ(RowsOf(std::move(other)), 200);
  EXPECT_EQ(CachedOfLast(), 0);
}

TEST_F(PrefixTest, WithoutTheCacheEverybodyComputesEverything) {
  Engine::Params params = Params();
  params.prefix_cache = false;
  Start(params);
  RowsOf(Ask(1, Prompt(200), 1));
  EXPECT_EQ(RowsOf(Ask(2, Prompt(200), 1)), 200);
  EXPECT_EQ(CachedOfLast(), 0);
}

// C56: the same prompt at once, too. The choices of one request report what was found of it.
TEST_F(PrefixTest, C56EqualPromptsAtOnceRunOnce) {
  Start(Params());
  const wire::GenerateRequest first = Ask(1, Prompt(201), 3);
  wire::GenerateRequest choice = first;
  choice.id = RequestId(2);
  Listener& a = Submit(first);
  Listener& b = Submit(choice);
  Listener& c = Submit(Ask(3, Prompt(201), 3));
  RunAt(At(0));
  EXPECT_EQ(Rows(), 201 + 3 * 2);
  EXPECT_EQ(steps.size(), 3u);
  for (const Listener* client : {&a, &b, &c}) EXPECT_EQ(TokensOf(*client), Counting(1, 3));
  EXPECT_EQ(b.end().usage.n_cached, 0);
  EXPECT_EQ(c.end().usage.n_cached, 201);
  EXPECT_EQ(engine->batch()->counts().n_forked, 2);
}

TEST_F(PrefixTest, WhatAnotherOneIsComputingIsWaitedFor) {
  Engine::Params params = Params();
  params.n_prompt_rows = 64;
  Start(params);
  std::vector<TokenId> a = Prompt(256);
  std::vector<TokenId> b = Prompt(200);
  a.resize(300, TokenId(60));
  b.resize(300, TokenId(61));
  Listener& first = Submit(Ask(1, a, 1));
  Listener& second = Submit(Ask(2, b, 1));
  RunAt(At(0));
  EXPECT_EQ(Rows(), 300 + 300 - 192) << "three whole blocks are waited for";
  EXPECT_EQ(first.end().usage.n_cached, 0);
  EXPECT_EQ(second.end().usage.n_cached, 192);
}

TEST_F(PrefixTest, WhoWaitsForOneThatIsCancelledGoesOnAlone) {
  Engine::Params params = Params();
  params.n_prompt_rows = 64;
  Start(params);
  Submit(Ask(1, Prompt(400), 1));
  Listener& twin = Submit(Ask(2, Prompt(400), 1));
  engine->Step(At(0));
  engine->Step(At(0));
  engine->Cancel(RequestId(1));
  RunAt(At(0));
  EXPECT_EQ(TokensOf(twin).size(), 1u);
  EXPECT_EQ(twin.end().usage.n_cached, 128);
  EXPECT_EQ(Rows(), 400);
}

TEST_F(PrefixTest, SickRowsAreNotShared) {
  Start(Params());
  std::vector<TokenId> sick = Prompt(20);
  sick.push_back(CountingModel::kSick);
  Submit(Ask(1, sick, 5));
  RunAt(At(0));
  EXPECT_EQ(listeners.back().end().status.code(), ErrorCode::kInternal);
  EXPECT_EQ(RowsOf(Ask(2, Prompt(30), 1)), 30);
}

// Its twins wait for its logits, and find out for themselves; the prompt fills a block.
TEST_F(PrefixTest, TwinsOfASickSequenceEndEachByItself) {
  Start(Params());
  std::vector<TokenId> sick = Prompt(199);
  sick.push_back(CountingModel::kSick);
  std::vector<Listener*> twins;
  for (uint64_t id = 1; id <= 3; ++id) twins.push_back(&Submit(Ask(id, sick, 5)));
  Listener& other = Submit(Ask(4, Prompt(30, 7), 3));
  RunAt(At(0));
  for (Listener* twin : twins) {
    ASSERT_TRUE(twin->ended());
    EXPECT_EQ(twin->end().status.code(), ErrorCode::kInternal);
  }
  EXPECT_EQ(TokensOf(other), Counting(37, 3));
}

// A pool for one sequence of full length and a bit: the older ones take from the younger ones, who
// come back and go on with the same tokens.
TEST_F(PrefixTest, WhoeverGaveWayComesBack) {
  Engine::Params params = Params();
  params.n_blocks = 9;
  Start(params);
  std::vector<Listener*> clients;
  for (uint64_t id = 1; id <= 4; ++id) {
    clients.push_back(&Submit(Ask(id, Prompt(150, static_cast<int32_t>(id)), 45)));
  }
  for (int ms = 0; !engine->idle(); ++ms) {
    ASSERT_LT(ms, 10'000);
    engine->Step(At(ms));
    DrainAll();
  }
  for (size_t i = 0; i < 4; ++i) {
    const int32_t first = (static_cast<int32_t>(i) + 1 + 149) % 50 + 1;
    EXPECT_EQ(TokensOf(*clients[i]), Counting(first, 45)) << i;
    EXPECT_TRUE(clients[i]->end().status.ok());
  }
  EXPECT_GT(engine->batch()->counts().n_preempted, 0);
}

// C48: a short request does not wait for the prompt of a long one, which loses a few rows.
TEST_F(PrefixTest, C48AShortPromptPassesALongOne) {
  Engine::Params params = Params();
  params.n_context = 6016;
  params.n_prompt_rows = 64;
  params.prefix_cache = false;
  Start(params);
  Listener& long_one = Submit(Ask(1, Prompt(6000), 1));
  engine->Step(At(0));
  Listener& short_one = Submit(Ask(2, Prompt(10, 20), 1));
  engine->Step(At(0));
  DrainAll();
  EXPECT_TRUE(short_one.ended());
  RunAt(At(0));
  EXPECT_TRUE(long_one.ended());
  EXPECT_EQ(steps.size(), 94u) << "6,010 rows of 64";
}

// C49: who decodes gets a row in every step, whatever prompts run.
TEST_F(PrefixTest, C49WhoDecodesGetsARowInEveryStep) {
  Engine::Params params = Params();
  params.n_prompt_rows = 16;
  Start(params);
  Listener& stream = Submit(Ask(1, TokenId(1), 40));
  engine->Step(At(0));
  Submit(Ask(2, Prompt(400, 3), 1));
  for (size_t n = 2; n <= 20; ++n) {
    engine->Step(At(0));
    DrainAll();
    ASSERT_EQ(stream.events.size(), n);
  }
}

TEST_F(PrefixTest, ASequenceThatCannotHaveItsBlocksRestsAndDoesNotSpin) {
  Engine::Params params = Params();
  params.n_blocks = 8;
  params.n_prompt_rows = 2'000;
  Start(params);
  Listener& slow = Submit(Ask(1, Prompt(440), 45));
  while (engine->Step(At(0)) <= At(0)) {
  }
  Listener& next = Submit(Ask(2, Prompt(440, 7), 1));
  EXPECT_GT(engine->Step(At(0)), At(0)) << "the older one holds nearly all, and is not read";
  EXPECT_GT(engine->Step(At(6)), At(6));
  for (int ms = 7; !engine->idle(); ++ms) {
    engine->Step(At(ms));
    DrainAll();
    ASSERT_LT(ms, 1'000);
  }
  EXPECT_TRUE(slow.ended());
  EXPECT_TRUE(next.ended());
}

}  // namespace
}  // namespace sluice::engine
