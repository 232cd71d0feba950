#include "cluster/router.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/ready_list.h"
#include "cluster/requests_test_impl.h"
#include "env/sim/sim_clock.h"
#include "wire/scripted_service.h"
#include "wire/scripted_service_test_impl.h"

namespace sluice::cluster {
namespace {

using wire::Listener;
using wire::RequestClass;

// Notes what it is told and answers what it was told to. What it holds ends when the test says so.
class FakeTarget final : public wire::TokenService {
 public:
  Status Submit(wire::GenerateRequest request, wire::EventQueue& out) override {
    if (!answer.ok()) return answer;
    submitted.push_back(request.id.value);
    last_queue = &out;
    ++load.n_running;
    return Status::Ok();
  }
  Status Check(const wire::GenerateRequest&) const override { return check; }
  void Cancel(RequestId id) override { cancelled.push_back(id.value); }
  wire::LoadReport Load() const override { return load; }

  Status answer;
  Status check;
  wire::LoadReport load{.n_waiting = 0, .n_running = 0, .n_running_max = 2, .last_step = {}};
  std::vector<uint64_t> submitted;
  std::vector<uint64_t> cancelled;
  wire::EventQueue* last_queue = nullptr;
};

class RouterTest : public testing::Test {
 protected:
  // Its listener, in `listeners` by id.
  Status Submit(AskParams params) {
    while (listeners.size() <= params.id) listeners.emplace_back(ready);
    return router.Submit(Ask(params), listeners[params.id].queue);
  }
  Listener& At(uint64_t id) {
    listeners[id].Drain();
    return listeners[id];
  }
  // Two requests have all the places.
  void FillTarget() {
    ASSERT_TRUE(Submit({.id = 1}).ok());
    ASSERT_TRUE(Submit({.id = 2}).ok());
  }
  // One of them ends.
  Time EndOne() {
    --target.load.n_running;
    return router.Step(clock.Now());
  }

  // Before the router, which pushes to them to its end.
  ReadyList ready{Bell{}};
  std::deque<Listener> listeners;
  int n_bells = 0;
  SimClock clock;
  FakeTarget target;
  Router router{{.queue = {.n_requests_max = 4, .n_tokens_max = 1'000},
                 .bell = {.ring = [](void* n) { ++*static_cast<int*>(n); }, .context = &n_bells}},
                clock,
                target};
};

TEST_F(RouterTest, WithAPlaceFreeARequestGoesStraightToTheTarget) {
  EXPECT_TRUE(Submit({.id = 7}).ok());
  EXPECT_EQ(target.submitted, std::vector<uint64_t>{7});
  EXPECT_EQ(target.last_queue, &listeners[7].queue);
  router.Cancel(RequestId(7));
  EXPECT_EQ(target.cancelled, std::vector<uint64_t>{7});
  EXPECT_EQ(router.Load().n_running, 1);
}

TEST_F(RouterTest, WithoutOneItWaitsHereUntilStepFindsOne) {
  FillTarget();
  ASSERT_TRUE(Submit({.id = 3}).ok());
  EXPECT_EQ(target.submitted.size(), 2u);
  EXPECT_EQ(router.Load().n_waiting, 1);
  EXPECT_EQ(router.Step(clock.Now()), Time::Max());
  EXPECT_EQ(target.submitted.size(), 2u) << "no place yet";
  EndOne();
  EXPECT_EQ(target.submitted.back(), 3u);
  EXPECT_EQ(router.Load().n_waiting, 0);
}

TEST_F(RouterTest, WhoeverComesDoesNotPassThoseThatWait) {
  FillTarget();
  ASSERT_TRUE(Submit({.id = 3}).ok());
  --target.load.n_running;  // and nobody has stepped
  ASSERT_TRUE(Submit({.id = 4}).ok());
  router.Step(clock.Now());
  EXPECT_EQ(target.submitted, (std::vector<uint64_t>{1, 2, 3}));
}

TEST_F(RouterTest, WhatTheTargetCannotDoIsRefusedBeforeItWaits) {
  FillTarget();
  target.check = Status(ErrorCode::kContextLength, "too long");
  EXPECT_EQ(Submit({.id = 3}).code(), ErrorCode::kContextLength);
  EXPECT_EQ(router.Load().n_waiting, 0);
}

TEST_F(RouterTest, ARefusalOfTheTargetInSubmitIsTheAnswer) {
  target.answer = Status(ErrorCode::kOverloaded, "full");
  target.answer.set_retry_after(Duration::Millis(50));
  const Status status = Submit({.id = 1});
  EXPECT_EQ(status.message(), "full");
  EXPECT_EQ(status.retry_after(), Duration::Millis(50));
  EXPECT_FALSE(At(1).ended()) << "a refused request has no events";
}

TEST_F(RouterTest, ARefusalOfTheTargetLaterEndsTheRequest) {
  FillTarget();
  ASSERT_TRUE(Submit({.id = 3}).ok());
  target.answer = Status(ErrorCode::kOverloaded, "shut");
  EndOne();
  ASSERT_TRUE(At(3).ended());
  EXPECT_EQ(At(3).end().status.message(), "shut");
  EXPECT_EQ(At(3).end().usage.n_prompt, 100);
}

TEST_F(RouterTest, ACancelEndsWhatWaitsAndTheTargetHearsNothing) {
  FillTarget();
  ASSERT_TRUE(Submit({.id = 3}).ok());
  router.Cancel(RequestId(3));
  router.Cancel(RequestId(3));
  ASSERT_EQ(At(3).events.size(), 1u);
  EXPECT_EQ(At(3).end().status.code(), ErrorCode::kCancelled);
  EXPECT_EQ(At(3).end().finish, wire::FinishReason::kError);
  EndOne();
  EXPECT_EQ(target.submitted.size(), 2u);
}

TEST_F(RouterTest, ADeadlineEndsWhatWaitsAndTheBellTellsOfTheNextOne) {
  FillTarget();
  ASSERT_TRUE(Submit({.id = 3, .deadline = cluster::At(20)}).ok());
  EXPECT_EQ(n_bells, 1);
  ASSERT_TRUE(Submit({.id = 4, .deadline = cluster::At(30)}).ok());
  EXPECT_EQ(n_bells, 1) << "Step is called in time for the one before";
  EXPECT_EQ(router.Step(clock.Now()), cluster::At(20));
  clock.AdvanceTo(cluster::At(20));
  EXPECT_EQ(router.Step(clock.Now()), cluster::At(30));
  ASSERT_TRUE(At(3).ended());
  EXPECT_EQ(At(3).end().status.code(), ErrorCode::kDeadlineExceeded);
  EXPECT_FALSE(At(4).ended());
}

TEST_F(RouterTest, CancelAllEndsWhatWaitsAndRefusesTheRest) {
  FillTarget();
  ASSERT_TRUE(Submit({.id = 3}).ok());
  router.CancelAll();
  ASSERT_TRUE(At(3).ended());
  EXPECT_EQ(At(3).end().status.code(), ErrorCode::kOverloaded);
  EXPECT_EQ(Submit({.id = 4}).code(), ErrorCode::kOverloaded);
  EXPECT_FALSE(At(1).ended()) << "it is the target's";
}

TEST_F(RouterTest, WhoFindsAPlaceIsNotMeasuredAgainstTheQueue) {
  EXPECT_TRUE(Submit({.id = 1, .n_prompt = 9'000}).ok());
  EXPECT_TRUE(Submit({.id = 2, .n_prompt = 9'000}).ok());
  EXPECT_TRUE(Submit({.id = 3, .n_prompt = 900}).ok());
  EXPECT_EQ(Submit({.id = 4, .n_prompt = 900}).api_code(), "queue_tokens_full");
}

// A scripted service behind a router, in virtual time. Each request takes one place for 10 ms.
class RouterBeforeScriptedService : public testing::Test {
 protected:
  static constexpr int32_t kPlaces = 4;

  Status Submit(AskParams params) {
    wire::ScriptPlay play = wire::Say("a");
    play.first = Duration::Millis(10);
    wire::GenerateRequest request = Ask(params);
    request.script = std::make_unique<const wire::ScriptPlay>(std::move(play));
    Listener& listener = listeners.emplace_back(ready);
    ids.push_back(params.id);
    const Status status = router.Submit(std::move(request), listener.queue);
    if (!status.ok()) {
      listeners.pop_back();
      ids.pop_back();
    }
    return status;
  }
  void RunTo(int64_t millis) {
    for (; clock.Now() < At(millis); clock.Advance(Duration::Millis(1))) Turn();
  }
  bool Ended(uint64_t id) const { return std::ranges::find(ended, id) != ended.end(); }
  // As the engine thread does.
  void Turn() {
    Time due = clock.Now();
    while (due <= clock.Now() || n_bells > 0) {
      n_bells = 0;
      due = service.Step(clock.Now());
      due = std::min(due, router.Step(clock.Now()));
      while (n_ended < listeners.size() && listeners[n_ended].ended()) ++n_ended;
      for (size_t i = n_ended; i < listeners.size(); ++i) {
        if (listeners[i].ended()) continue;
        listeners[i].Drain();
        if (listeners[i].ended()) ended.push_back(ids[i]);
      }
    }
  }

  ReadyList ready{Bell{}};
  std::deque<Listener> listeners;
  int n_bells = 0;
  SimClock clock;
  wire::ScriptedService service{
      {.max_running = kPlaces,
       .max_waiting = 0,
       .bell = {.ring = [](void* n) { ++*static_cast<int*>(n); }, .context = &n_bells}}};
  Router router{
      {.queue = {.n_requests_max = 50, .n_tokens_max = 4'000}, .bell = {}}, clock, service};
  size_t n_ended = 0;           // listeners before the first that has not
  std::vector<uint64_t> ids;    // of listeners
  std::vector<uint64_t> ended;  // in the order of their ends
};

TEST_F(RouterBeforeScriptedService, C50TenTimesWhatItCanDoIsBoundedAndEachRefusalHasAReason) {
  uint64_t next_id = 0;
  int64_t n_waiting_max = 0;
  std::set<std::string_view> reasons;
  for (int64_t millis = 0; millis < 6'000; ++millis) {
    for (int i = 0; i < 4; ++i) {  // four a millisecond, of which ten take one
      const Status status =
          Submit({.id = ++next_id, .key = next_id % 7, .n_prompt = 1 + next_id % 300});
      if (status.ok()) continue;
      EXPECT_TRUE(status.code() == ErrorCode::kOverloaded ||
                  status.code() == ErrorCode::kRateLimited);
      EXPECT_GE(status.retry_after(), kLeastRetry);
      reasons.insert(status.api_code());
    }
    n_waiting_max = std::max(n_waiting_max, router.Load().n_waiting);
    RunTo(millis + 1);
  }
  EXPECT_LE(n_waiting_max, 50);
  EXPECT_TRUE(reasons.contains("queue_full") || reasons.contains("queue_tokens_full"));
  EXPECT_NEAR(static_cast<double>(ended.size()), 4 * 600, 60) << "and all the places were in use";
  RunTo(6'500);
  EXPECT_EQ(ended.size(), listeners.size()) << "who was let in was served";
}

TEST_F(RouterBeforeScriptedService, AKeyWithOneRequestDoesNotWaitForTheOtherKeysQueue) {
  for (uint64_t id = 1; id <= 40; ++id)
    ASSERT_TRUE(Submit({.id = id, .key = 1, .n_prompt = 1}).ok());
  ASSERT_TRUE(Submit({.id = 100, .key = 2, .n_prompt = 1}).ok());
  RunTo(1'000);
  ASSERT_EQ(ended.size(), 41u);
  const auto at = std::ranges::find(ended, 100u) - ended.begin();
  EXPECT_LT(at, 2 * kPlaces) << "among the first to follow those that ran";
}

TEST_F(RouterBeforeScriptedService, BulkRunsBehindEverythingAndStillRuns) {
  for (uint64_t id = 1; id <= 4; ++id) ASSERT_TRUE(Submit({.id = id}).ok());
  ASSERT_TRUE(Submit({.id = 5, .request_class = RequestClass::kBulk, .n_prompt = 1}).ok());
  uint64_t next_id = 10;
  for (int64_t millis = 0; millis < 10'100; ++millis) {
    while (router.Load().n_waiting < 2 * kPlaces)
      ASSERT_TRUE(Submit({.id = ++next_id, .n_prompt = 1}).ok());
    RunTo(millis + 1);
    ASSERT_TRUE(millis > 9'900 || !Ended(5)) << millis;
  }
  EXPECT_TRUE(Ended(5));
}

}  // namespace
}  // namespace sluice::cluster
