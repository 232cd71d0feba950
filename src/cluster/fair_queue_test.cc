#include "cluster/fair_queue.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "base/random_test_impl.h"
#include "cluster/requests_test_impl.h"

namespace sluice::cluster {
namespace {

using wire::RequestClass;

class FairQueueTest : public testing::Test {
 protected:
  void Push(AskParams params, Time since = {}) {
    queue.Push({.request = Ask(params), .out = nullptr, .since = since});
  }
  uint64_t Pop(Time now = {}) { return queue.Pop(now).request.id.value; }

  FairQueue queue;
};

TEST_F(FairQueueTest, OfOneKeyTheFirstComesFirst) {
  for (const uint64_t id : {3, 1, 2}) Push({.id = id, .n_prompt = 10 * id});
  EXPECT_EQ(Pop(), 3u);
  EXPECT_EQ(Pop(), 1u);
  EXPECT_EQ(Pop(), 2u);
  EXPECT_TRUE(queue.empty());
}

TEST_F(FairQueueTest, AKeyWithOneRequestIsServedWithinTwoTurnsOfOneWithAThousand) {
  for (uint64_t id = 1; id <= 1'000; ++id) Push({.id = id, .key = 1});
  for (int i = 0; i < 10; ++i) Pop();
  Push({.id = 2'000, .key = 2});
  const uint64_t first = Pop();
  const uint64_t second = Pop();
  EXPECT_TRUE(first == 2'000 || second == 2'000) << first << ", " << second;
}

// One request at a time, again and again: the turn that it had counts although it did not wait in
// between.
TEST_F(FairQueueTest, AKeyThatComesBackAtOnceGetsHalfOfTheTurns) {
  for (uint64_t id = 1; id <= 100; ++id) Push({.id = id, .key = 1});
  int n_second = 0;
  uint64_t next_id = 1'000;
  Push({.id = next_id, .key = 2});
  for (int turn = 0; turn < 40; ++turn) {
    if (Pop() < next_id) continue;
    ++n_second;
    Push({.id = ++next_id, .key = 2});
  }
  EXPECT_GE(n_second, 19);
  EXPECT_LE(n_second, 21);
}

TEST_F(FairQueueTest, WhatIsSharedOutIsCostAndNotRequests) {
  for (uint64_t id = 1; id <= 20; ++id) Push({.id = id, .key = 1, .n_prompt = 9'994});
  for (uint64_t id = 101; id <= 300; ++id) Push({.id = id, .key = 2, .n_prompt = 994});
  int64_t n_long = 0;
  int64_t n_short = 0;
  for (int turn = 0; turn < 110; ++turn) ++(Pop() <= 20 ? n_long : n_short);
  EXPECT_EQ(n_long, 10);
  EXPECT_EQ(n_short, 100);
}

// Who was alone for long owes nothing to those that come later, and they owe nothing to it.
TEST_F(FairQueueTest, NobodySavesUpOrIsInDebt) {
  for (uint64_t id = 1; id <= 50; ++id) Push({.id = id, .key = 1});
  for (int i = 0; i < 30; ++i) Pop();
  for (uint64_t id = 101; id <= 120; ++id) Push({.id = id, .key = 2});
  int n_second = 0;
  for (int turn = 0; turn < 20; ++turn) n_second += Pop() > 100 ? 1 : 0;
  EXPECT_EQ(n_second, 10);
}

TEST_F(FairQueueTest, AHigherClassComesFirstWhoeverAsks) {
  Push({.id = 1, .request_class = RequestClass::kBulk});
  Push({.id = 2, .request_class = RequestClass::kDefault});
  Push({.id = 3, .request_class = RequestClass::kInteractive});
  Push({.id = 4, .request_class = RequestClass::kInteractive});
  for (const uint64_t id : {3, 4, 2, 1}) EXPECT_EQ(Pop(), id);
}

TEST_F(FairQueueTest, ALowClassGetsATurnOnceItsPatienceIsOver) {
  for (uint64_t id = 1; id <= 3; ++id) Push({.id = id, .request_class = RequestClass::kBulk});
  for (uint64_t id = 11; id <= 99; ++id) Push({.id = id});
  const Time late = Time{} + kClassPatience;
  EXPECT_GT(Pop(Time{late.ns - 1}), 10u);
  EXPECT_EQ(Pop(late), 1u);
  EXPECT_GT(Pop(late), 10u) << "one turn, then it waits again";
  EXPECT_GT(Pop(Time{late.ns - 1} + kClassPatience), 10u);
  EXPECT_EQ(Pop(late + kClassPatience), 2u);
}

TEST_F(FairQueueTest, WhatIsTakenOutNoLongerWaits) {
  Push({.id = 1, .key = 7, .n_prompt = 5, .deadline = At(10)});
  Push({.id = 2, .key = 7, .n_prompt = 6, .deadline = At(5)});
  EXPECT_EQ(queue.next_deadline(), At(5));
  EXPECT_FALSE(queue.Remove(RequestId(3)).has_value());
  EXPECT_FALSE(queue.TakeLate(At(4)).has_value());
  EXPECT_EQ(queue.TakeLate(At(5))->request.id, RequestId(2));
  EXPECT_EQ(queue.next_deadline(), At(10));
  EXPECT_EQ(queue.ShareOf(KeyId(7)).n_tokens, 5);
  EXPECT_EQ(queue.Remove(RequestId(1))->request.id, RequestId(1));
  EXPECT_EQ(queue.next_deadline(), Time::Max());
  EXPECT_EQ(queue.total().n_requests, 0);
  EXPECT_FALSE(queue.TakeAny().has_value());
}

// Against a list of what is in it; what CostBefore foretells is what comes, but for the turns that
// keys have in advance of each other: one request each.
TEST(FairQueueRandom, NothingIsLostAndTheForecastHolds) {
  Random random;
  FairQueue queue;
  std::map<uint64_t, int64_t> inside;  // tokens by id
  constexpr int64_t kCostMax = 400 + 6;
  for (uint64_t id = 1; id <= 5'000; ++id) {
    const AskParams params{.id = id,
                           .key = random.Below(6),
                           .request_class = static_cast<RequestClass>(random.Below(3)),
                           .n_prompt = 1 + random.Below(400)};
    queue.Push({.request = Ask(params), .out = nullptr, .since = {}});
    inside[id] = static_cast<int64_t>(params.n_prompt);
    while (queue.total().n_requests > 0 && random.Below(2) == 0) {
      if (random.Below(4) == 0) {
        const uint64_t some = 1 + random.Below(id);
        EXPECT_EQ(queue.Remove(RequestId(some)).has_value(), inside.erase(some) == 1);
      } else {
        EXPECT_EQ(inside.erase(queue.Pop({}).request.id.value), 1u);
      }
    }
    int64_t n_tokens = 0;
    for (const auto& [key, n] : inside) n_tokens += n;
    ASSERT_EQ(queue.total().n_tokens, n_tokens);
    ASSERT_EQ(queue.total().n_requests, std::ssize(inside));
  }
  const wire::GenerateRequest last = Ask({.id = 10'000, .key = 3});
  const int64_t foretold = queue.CostBefore(last);
  queue.Push({.request = last, .out = nullptr, .since = {}});
  int64_t before = 0;
  for (;;) {
    const WaitingRequest next = queue.Pop({});
    if (next.request.id == last.id) break;
    before += CostOf(next.request);
  }
  EXPECT_LE(std::abs(before - foretold), 6 * 2 * kCostMax) << foretold;
}

}  // namespace
}  // namespace sluice::cluster
