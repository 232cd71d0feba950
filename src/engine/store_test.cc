// The engine and a block store behind it, over a model that counts: what is kept, what comes back,
// who waits, and what happens when the store is late, fails or never answers.

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/metrics.h"
#include "engine/engine_test_impl.h"
#include "env/sim/sim_clock.h"

namespace sluice::engine {
namespace {

using metrics::HitSource;
using metrics::MissCause;
using metrics::StoreCall;

class StoreTest : public testing::Test, protected EngineInVirtualTime {
 protected:
  // Blocks for three sequences of eight.
  Engine::Params Params() {
    Engine::Params params = Defaults();
    params.n_context = 512;
    params.n_prompt_rows = 512;
    params.n_blocks = 24;
    params.store = &store;
    params.bell = {.ring = [](void* n) { ++*static_cast<int*>(n); }, .context = &n_rings};
    return params;
  }
  void Step() {
    engine->Step(At(++now_ms));
    DrainAll();
  }
  // Until nothing is open any more.
  void Run() {
    for (int i = 0; !engine->idle(); ++i) {
      SLUICE_CHECK(i < 10'000);
      Step();
    }
  }
  int32_t RowsOf(wire::GenerateRequest request) {
    const int32_t before = Rows();
    last = &Submit(std::move(request));
    Run();
    SLUICE_CHECK(last->end().status.ok());
    return Rows() - before;
  }
  // An engine whose memory is cold and whose store has all of `prompt`.
  void StartWith(const std::vector<TokenId>& prompt) {
    Start(Params());
    RowsOf(Ask(1000, prompt, 1));
    Start(Params());
    before = Counted();
  }

  // Of the process, so tests look at differences.
  struct Numbers {
    int64_t memory, fork, store, unseen, parted, evicted, final, no_room, failed, late, n_failures;
    Numbers operator-(const Numbers& b) const {
      return {memory - b.memory, fork - b.fork,       store - b.store,          unseen - b.unseen,
              parted - b.parted, evicted - b.evicted, final - b.final,          no_room - b.no_room,
              failed - b.failed, late - b.late,       n_failures - b.n_failures};
    }
  };
  static Numbers Counted() {
    const auto hits = [](HitSource s) {
      return metrics::Cell(metrics::kPrefixCacheHits, s).load();
    };
    const auto misses = [](MissCause c) {
      return metrics::Cell(metrics::kPrefixCacheMisses, c).load();
    };
    int64_t n_failures = 0;
    for (const StoreCall call : {StoreCall::kFind, StoreCall::kLoad, StoreCall::kSave}) {
      n_failures += metrics::Cell(metrics::kStoreFailures, call).load();
    }
    return {.memory = hits(HitSource::kMemory),
            .fork = hits(HitSource::kFork),
            .store = hits(HitSource::kStore),
            .unseen = misses(MissCause::kUnseen),
            .parted = misses(MissCause::kParted),
            .evicted = misses(MissCause::kEvicted),
            .final = misses(MissCause::kFinal),
            .no_room = misses(MissCause::kNoRoom),
            .failed = misses(MissCause::kStoreFailed),
            .late = misses(MissCause::kStoreLate),
            .n_failures = n_failures};
  }
  Numbers News() const { return Counted() - before; }
  static int64_t BlocksInUse() { return metrics::Cell(metrics::kKvBlocksInUse).load(); }

  Listener* last = nullptr;
  int64_t now_ms = 0;
  int n_rings = 0;
  Numbers before = Counted();
};

TEST_F(StoreTest, ASecondEngineLoadsWhatTheFirstOneComputed) {
  StartWith(Prompt(201));
  EXPECT_EQ(store.n_blocks(), 3);
  EXPECT_EQ(RowsOf(Ask(1, Prompt(201), 3)), 201 - 192 + 2);
  EXPECT_EQ(TokensOf(*last), Counting(1, 3));
  EXPECT_EQ(last->end().usage.n_cached, 192);
  EXPECT_EQ(News().store, 192);
  EXPECT_EQ(News().unseen, 9) << "less than a block is not stored";
  EXPECT_EQ(RowsOf(Ask(2, Prompt(201), 1)), 1) << "it is in memory now";
  EXPECT_EQ(News().memory, 200);
  EXPECT_EQ(News().final, 1);
  EXPECT_EQ(store.n_finds, 2) << "nobody asks for what is there";
}

TEST_F(StoreTest, WhatIsInMemoryIsNotLoadedAgain) {
  std::vector<TokenId> longer = Prompt(200);
  longer.resize(400, TokenId(7));
  StartWith(longer);
  RowsOf(Ask(1, Prompt(150), 1));
  EXPECT_EQ(RowsOf(Ask(2, longer, 1)), 400 - 384);
  EXPECT_EQ(News().store, 128 + 256);
  EXPECT_EQ(News().memory, 128);
}

TEST_F(StoreTest, EachBlockIsOfferedOnce) {
  Start(Params());
  RowsOf(Ask(1, Prompt(120), 20));
  EXPECT_EQ(store.n_saves, 2) << "one was filled by the answer";
  RowsOf(Ask(2, Prompt(120), 20));
  EXPECT_EQ(store.n_saves, 2);
}

TEST_F(StoreTest, OthersGoOnWhileOneFetches) {
  StartWith(Prompt(201));
  store.is_held = true;
  Listener& fetches = Submit(Ask(1, Prompt(201), 1));
  Listener& other = Submit(Ask(2, Prompt(100, 20), 5));
  for (int i = 0; i < 8; ++i) Step();
  EXPECT_TRUE(other.ended());
  EXPECT_TRUE(fetches.events.empty());
  store.Go();
  Run();
  EXPECT_EQ(fetches.end().usage.n_cached, 192);
}

TEST_F(StoreTest, WhoeverOnlyFetchesSleepsUntilTheBell) {
  StartWith(Prompt(201));
  store.is_held = true;
  Listener& client = Submit(Ask(1, Prompt(201), 1));
  const Time wake = engine->Step(At(1));
  EXPECT_GT(wake, At(50)) << "not before it is late";
  EXPECT_GT(engine->Step(At(2)), At(50));
  n_rings = 0;
  store.Go(Params().bell);
  EXPECT_EQ(n_rings, 1);
  RunAt(At(3));
  EXPECT_TRUE(client.ended());
  EXPECT_EQ(client.end().usage.n_cached, 192);
}

TEST_F(StoreTest, EqualPromptsFetchOnceAndFork) {
  StartWith(Prompt(201));
  store.is_held = true;
  const int32_t n_finds = store.n_finds;
  Submit(Ask(1, Prompt(201), 2));
  Listener& twin = Submit(Ask(2, Prompt(201), 2));
  std::vector<TokenId> other = Prompt(150);
  other.resize(201, TokenId(60));
  Listener& cousin = Submit(Ask(3, other, 1));
  for (int i = 0; i < 5; ++i) Step();
  store.Go();
  Run();
  EXPECT_EQ(store.n_finds, n_finds + 2) << "the third looks for its last block when two are there";
  EXPECT_EQ(store.n_loads, 1);
  EXPECT_EQ(News().fork, 201);
  EXPECT_EQ(News().store, 192);
  EXPECT_EQ(TokensOf(twin), Counting(1, 2));
  EXPECT_EQ(cousin.end().usage.n_cached, 128 + 22);
  EXPECT_EQ(News().memory, 128 + 22);
}

TEST_F(StoreTest, WhatArrivedBeforeABadBlockIsUsed) {
  StartWith(Prompt(449));
  store.faults.load_fails = 100;
  const int32_t n_rows = RowsOf(Ask(1, Prompt(449), 1));
  EXPECT_EQ(n_rows, 449 - last->end().usage.n_cached);
  EXPECT_EQ(last->end().usage.n_cached % kv::kBlockTokens, 0);
  EXPECT_LT(last->end().usage.n_cached, 448);
  EXPECT_EQ(TokensOf(*last).size(), 1u);
  EXPECT_EQ(News().store, last->end().usage.n_cached);
  EXPECT_EQ(News().failed, 448 - News().store);
  EXPECT_EQ(News().n_failures, 1);
}

TEST_F(StoreTest, AStoreThatFailsIsAMiss) {
  StartWith(Prompt(201));
  store.faults.find_fails = store.faults.save_fails = 100;
  EXPECT_EQ(RowsOf(Ask(1, Prompt(201), 1)), 201);
  EXPECT_EQ(News().failed, 192);
  EXPECT_EQ(News().unseen, 9);
  EXPECT_EQ(News().n_failures, 1) << "what the store has is not saved again";
  EXPECT_EQ(RowsOf(Ask(2, Prompt(130, 7), 1)), 130);
  EXPECT_EQ(News().n_failures, 1 + 1 + 2);
  EXPECT_EQ(store.n_blocks(), 3);
}

// vllm#57912: no deadline of a load. The request goes on, whatever becomes of its blocks.
TEST_F(StoreTest, WhoeverWaitsTooLongGoesOnWithout) {
  for (const bool finds : {false, true}) {
    SCOPED_TRACE(finds);
    StartWith(Prompt(201));
    store.is_held = !finds;
    store.holds_loads = store.holds_cancels = true;
    Listener& late = Submit(Ask(1, Prompt(201), 1));
    Step();
    EXPECT_EQ(store.n_open(), 1);
    now_ms += 100;
    Step();
    Step();
    EXPECT_TRUE(late.ended());
    EXPECT_EQ(late.end().usage.n_cached, 0);
    EXPECT_EQ(News().late, 192);
    EXPECT_EQ(News().n_failures, 1);
    EXPECT_FALSE(engine->idle()) << "the call is open";
    store.Go();
    Run();
  }
}

// The fence: what an open ticket names is nobody's, whatever became of the request.
TEST_F(StoreTest, BlocksOfALoadComeBackBehindItsCompletionOnly) {
  for (const bool by_deadline : {false, true}) {
    SCOPED_TRACE(by_deadline);
    StartWith(Prompt(449));
    store.holds_loads = store.holds_cancels = true;
    wire::GenerateRequest request = Ask(1, Prompt(449), 1);
    if (by_deadline) request.deadline = At(now_ms + 20);
    Listener& client = Submit(std::move(request));
    Step();
    EXPECT_EQ(BlocksInUse(), 7);
    if (!by_deadline) engine->Cancel(RequestId(1));
    if (by_deadline) now_ms += 20;
    Step();
    Step();
    EXPECT_TRUE(client.ended());
    EXPECT_EQ(BlocksInUse(), 7) << "the load's";
    EXPECT_FALSE(engine->idle());
    store.Go();
    Run();
    Step();
    EXPECT_EQ(BlocksInUse(), 0);
  }
}

TEST_F(StoreTest, AnEngineThatGoesLeavesNothingOpen) {
  StartWith(Prompt(201));
  store.faults.n_polls_max = 20;
  Submit(Ask(1, Prompt(201), 1));
  Submit(Ask(2, Prompt(300, 9), 20));
  for (int i = 0; i < 3; ++i) Step();
  EXPECT_GT(store.n_open(), 0);
  engine->CancelAll();
  Run();
  EXPECT_EQ(store.n_open(), 0);
  // And without being asked to.
  Start(Params());
  Submit(Ask(3, Prompt(201), 1));
  Submit(Ask(4, Prompt(300, 9), 20));
  Step();
  Step();
  engine->CancelAll();
  DrainAll();
  engine.reset();
  EXPECT_EQ(store.n_open(), 0);
}

// C64: the second tenant hits. C60: another checkpoint of the same shape hits.
TEST_F(StoreTest, C60C64OtherTenantsAndOtherWeightsFindNothing) {
  weights_revision = "a";
  StartWith(Prompt(201));
  wire::GenerateRequest other = Ask(1, Prompt(201), 1);
  other.tenant = TenantId(1);
  EXPECT_EQ(RowsOf(std::move(other)), 201);
  weights_revision = "b";
  Start(Params());
  EXPECT_EQ(RowsOf(Ask(2, Prompt(201), 1)), 201);
  EXPECT_EQ(News().store, 0);
  weights_revision = "a";
  Start(Params());
  EXPECT_EQ(RowsOf(Ask(3, Prompt(201), 1)), 9);
}

// C57: parts of what one asks for are not the whole. Blocks behind a hole are not taken.
TEST_F(StoreTest, C57BlocksBehindAHoleAreNotTaken) {
  StartWith(Prompt(449));
  const kv::BlockKey root = kv::RootKey(
      std::array<std::byte, 32>{}, kv::Layout(),
      {.weights_revision = "", .replay_mode = "full exact float32 0", .name_space = "0"});
  kv::BlockKey key = root;
  const std::vector<TokenId> prompt = Prompt(449);
  for (size_t i = 0; i < 3; ++i) key = kv::ChildKey(key, std::span(prompt).subspan(64 * i, 64));
  store.Forget(key);
  ASSERT_EQ(store.n_blocks(), 6);
  EXPECT_EQ(RowsOf(Ask(1, prompt, 1)), 449 - 128);
  EXPECT_EQ(store.n_blocks(), 7) << "it is saved again";
}

// A store that never finishes a Save costs the blocks that it may name, and no request.
TEST_F(StoreTest, SavesThatNeverEndHoldUpNobody) {
  Engine::Params params = Params();
  params.n_blocks = 10;
  Start(params);
  store.is_held = true;
  for (uint64_t id = 1; id <= 6; ++id) {
    Submit(Ask(id, Prompt(400, static_cast<int32_t>(id)), 100));
    for (int i = 0; i < 1'000 && !listeners.back().ended(); ++i) Step();
    ASSERT_TRUE(listeners.back().ended()) << id;
  }
  EXPECT_EQ(store.n_open(), 1) << "half of the two beyond one sequence";
  store.Go();
  Run();
  EXPECT_GT(store.n_blocks(), 1);
}

TEST_F(StoreTest, WhoFetchesGivesWayToTheOlder) {
  StartWith(Prompt(449));
  Engine::Params params = Params();
  params.n_blocks = 17;
  Start(params);
  std::vector<Listener*> older;  // three blocks each, and soon four
  for (uint64_t id = 1; id <= 3; ++id) {
    older.push_back(&Submit(Ask(id, Prompt(190, static_cast<int32_t>(10 + id)), 60)));
  }
  Step();
  store.holds_loads = true;
  Listener& young = Submit(Ask(4, Prompt(449), 1));
  Step();
  EXPECT_EQ(BlocksInUse(), 9 + 7);
  for (int i = 0; i < 10; ++i) Step();
  EXPECT_EQ(store.n_open(), 0) << "cancelled, since the three lack blocks";
  store.Go();
  Run();
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(TokensOf(*older[i]), Counting(static_cast<int32_t>(i) + 1, 60));
  }
  EXPECT_EQ(TokensOf(young).size(), 1u);
}

TEST_F(StoreTest, StepsThatRunRowsAreTimed) {
  // A second passes from one look at the clock to the next.
  class Ticking final : public SimClock {
   public:
    Time Now() const override {
      now_s_ += 1;
      return Time{} + Duration::Seconds(now_s_);
    }

   private:
    mutable int64_t now_s_ = 0;
  };
  const Ticking clock;
  Engine::Params params = Params();
  params.clock = &clock;
  Start(params);
  // The sum lies behind the buckets and the one above them, in nanoseconds.
  const auto sum = [] {
    return metrics::cells[metrics::kStepTime.first + metrics::kStepTime.kCells - 1].load();
  };
  const int64_t ns_before = sum();
  Submit(Ask(1, Prompt(100), 3));
  Step();
  Step();
  Step();
  const int64_t ns_of_three = sum() - ns_before;
  EXPECT_GE(ns_of_three, 3 * Duration::Seconds(1).ns);
  EXPECT_EQ(ns_of_three % Duration::Seconds(1).ns, 0);
  Step();
  EXPECT_EQ(sum() - ns_before, ns_of_three) << "nothing ran";
}

TEST_F(StoreTest, EveryMissHasItsCause) {
  Engine::Params params = Params();
  params.store = nullptr;
  params.n_blocks = 8;
  Start(params);
  RowsOf(Ask(1, Prompt(300), 1));
  EXPECT_EQ(News().unseen, 300);
  std::vector<TokenId> parts = Prompt(200);
  parts.resize(300, TokenId(60));
  RowsOf(Ask(2, parts, 1));
  EXPECT_EQ(News().memory, 200);
  EXPECT_EQ(News().parted, 100);
  RowsOf(Ask(3, Prompt(450, 9), 1));
  before = Counted();
  RowsOf(Ask(4, Prompt(300), 1));
  EXPECT_EQ(News().evicted, 256);
  EXPECT_EQ(News().unseen, 300 - 256);
  std::vector<TokenId> next = Prompt(300);
  for (const int32_t token : TokensOf(*last)) next.emplace_back(token);
  next.resize(320, TokenId(3));
  before = Counted();
  RowsOf(Ask(5, next, 1));
  EXPECT_EQ(News().memory, 300);
  EXPECT_EQ(News().unseen, 20) << "it goes on; it does not part";
}

}  // namespace
}  // namespace sluice::engine
