// The life of requests: waiting, cancel, deadline, back-pressure, load, shutdown.

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/metrics.h"
#include "wire/scripted_service.h"
#include "wire/scripted_service_test_impl.h"

namespace sluice::wire {
namespace {

class ScriptedServiceLifeTest : public testing::Test, protected ServiceInVirtualTime {};

TEST_F(ScriptedServiceLifeTest, WaitingRequestsStartInTheOrderOfSubmission) {
  Start(/*max_running=*/1, /*max_waiting=*/3);
  for (uint64_t id = 1; id <= 4; ++id) {
    ASSERT_TRUE(service->Submit(Ask(id, Say("ab")), Listen().queue).ok());
  }
  std::vector<size_t> order;
  for (int step = 0; step < 20; ++step) {
    service->Step(At(0));
    for (size_t i = 0; i < listeners.size(); ++i) {
      bool had_some = !listeners[i].events.empty();
      listeners[i].Drain();
      if (!had_some && !listeners[i].events.empty()) order.push_back(i);
    }
  }
  EXPECT_EQ(order, (std::vector<size_t>{0, 1, 2, 3}));
  EXPECT_TRUE(service->idle());
}

TEST_F(ScriptedServiceLifeTest, IsFullAtSlotsPlusWaitingAndTakesMoreOnceOneHasEnded) {
  Start(/*max_running=*/1, /*max_waiting=*/1);
  Listener& a = Listen();
  Listener& b = Listen();
  Listener& c = Listen();
  ASSERT_TRUE(service->Submit(Ask(1, Say("a")), a.queue).ok());
  ASSERT_TRUE(service->Submit(Ask(2, Say("b")), b.queue).ok());
  EXPECT_EQ(service->Submit(Ask(3, Say("c")), c.queue).code(), ErrorCode::kOverloaded);
  RunAt(At(0));
  EXPECT_TRUE(a.ended() && b.ended());
  EXPECT_TRUE(c.events.empty());
  ASSERT_TRUE(service->Submit(Ask(4, Say("c")), c.queue).ok());
  RunAt(At(0));
  EXPECT_EQ(c.text, "c");
}

TEST_F(ScriptedServiceLifeTest, CancelBeforeTheFirstStepStillBringsTheTerminalEvent) {
  Start();
  Listener& client = Listen();
  ASSERT_TRUE(service->Submit(Ask(7, Say("abc")), client.queue).ok());
  service->Cancel(RequestId(7));
  RunAt(At(0));
  ASSERT_EQ(client.events.size(), 1u);
  EXPECT_EQ(client.end().finish, FinishReason::kError);
  EXPECT_EQ(client.end().status.code(), ErrorCode::kCancelled);
}

TEST_F(ScriptedServiceLifeTest, CancelOfAWaitingRequestEndsItAndKeepsTheOrderOfTheRest) {
  Start(/*max_running=*/1, /*max_waiting=*/2);
  Listener& running = Listen();
  Listener& waiting = Listen();
  Listener& last = Listen();
  ASSERT_TRUE(
      service->Submit(Ask(1, SayWithFault("", ScriptPlay::Fault::kHang, 0)), running.queue).ok());
  ASSERT_TRUE(service->Submit(Ask(2, Say("b")), waiting.queue).ok());
  ASSERT_TRUE(service->Submit(Ask(3, Say("c")), last.queue).ok());
  RunAt(At(0));
  service->Cancel(RequestId(2));
  RunAt(At(1));
  EXPECT_EQ(waiting.end().status.code(), ErrorCode::kCancelled);
  EXPECT_FALSE(running.ended());
  EXPECT_TRUE(last.events.empty());
  service->Cancel(RequestId(1));
  RunAt(At(2));
  EXPECT_EQ(last.text, "c");
}

TEST_F(ScriptedServiceLifeTest, CancelTwiceAfterTheEndOrOfUnknownIdsIsIgnored) {
  Start();
  Listener& client = Listen();
  ASSERT_TRUE(service->Submit(Ask(5, Say("abc")), client.queue).ok());
  service->Step(At(0));
  service->Cancel(RequestId(5));
  service->Cancel(RequestId(5));
  service->Cancel(RequestId(6));
  service->Cancel(RequestId(0));
  service->Cancel(RequestId(UINT64_MAX));
  RunAt(At(0));
  service->Cancel(RequestId(5));
  RunAt(At(0));
  EXPECT_EQ(client.text, "a");
  EXPECT_EQ(client.end().status.code(), ErrorCode::kCancelled);
  TokenEvent event;
  EXPECT_FALSE(client.queue.TryPop(event)) << "nothing may follow the terminal event";
}

TEST_F(ScriptedServiceLifeTest, CancelOfAnEndedRequestSparesTheNextOneInItsSeat) {
  Start(/*max_running=*/1, /*max_waiting=*/0);
  Listener& first = Listen();
  ASSERT_TRUE(service->Submit(Ask(1, Say("a")), first.queue).ok());
  RunAt(At(0));
  Listener& second = Listen();
  ASSERT_TRUE(service->Submit(Ask(2, Say("b")), second.queue).ok());
  service->Cancel(RequestId(1));
  RunAt(At(0));
  EXPECT_EQ(second.end().finish, FinishReason::kEnd);
}

TEST_F(ScriptedServiceLifeTest, TheDeadlineEndsWaitingSleepingAndReadyRequests) {
  Start(/*max_running=*/2, /*max_waiting=*/1);
  Listener& sleeping = Listen();
  Listener& ready_one = Listen();
  Listener& waiting = Listen();
  ScriptPlay slow = Say("abc");
  slow.first = Duration::Seconds(100);
  GenerateRequest request = Ask(1, std::move(slow));
  request.deadline = At(10);
  ASSERT_TRUE(service->Submit(std::move(request), sleeping.queue).ok());
  request = Ask(2, Say("abc"));
  request.deadline = At(10);
  ASSERT_TRUE(service->Submit(std::move(request), ready_one.queue).ok());
  request = Ask(3, Say("abc"));
  request.deadline = At(10);
  ASSERT_TRUE(service->Submit(std::move(request), waiting.queue).ok());
  service->Step(At(9));
  RunAt(At(10));
  for (Listener* client : {&sleeping, &ready_one, &waiting}) {
    ASSERT_TRUE(client->ended());
    EXPECT_EQ(client->end().status.code(), ErrorCode::kDeadlineExceeded);
  }
  EXPECT_EQ(ready_one.text, "a");
}

TEST_F(ScriptedServiceLifeTest, AnUnreadSequencePausesAndGoesOnWhereItWas) {
  Start();
  Listener& client = Listen();
  std::string text(100, '?');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>('!' + i % 90);
  ASSERT_TRUE(service->Submit(Ask(1, Say(text)), client.queue).ok());
  Time next = At(0);
  int n_steps = 0;
  for (; next <= At(0); ++n_steps) next = service->Step(At(0));
  EXPECT_EQ(n_steps, static_cast<int>(kQueuedEvents) + 1);
  EXPECT_EQ(next, At(0) + RequestDesk::kHeartbeat) << "it must not spin";
  n_bells = 0;
  client.Drain();
  EXPECT_EQ(client.events.size(), kQueuedEvents);
  EXPECT_EQ(n_bells, 1) << "room rings the service's bell";
  RunAt(At(0));
  EXPECT_EQ(client.text, text);
}

TEST_F(ScriptedServiceLifeTest, APausedSequenceObeysCancelAndDeadline) {
  Start();
  Listener& cancelled = Listen();
  Listener& timed_out = Listen();
  ASSERT_TRUE(service->Submit(Ask(1, Say(std::string(50, 'a'))), cancelled.queue).ok());
  GenerateRequest request = Ask(2, Say(std::string(50, 'b')));
  request.deadline = At(100);
  ASSERT_TRUE(service->Submit(std::move(request), timed_out.queue).ok());
  while (service->Step(At(0)) <= At(0)) {
  }
  service->Cancel(RequestId(1));
  EXPECT_EQ(service->Step(At(1)), At(100));
  service->Step(At(100));
  EXPECT_TRUE(service->idle());
  cancelled.Drain();
  timed_out.Drain();
  EXPECT_EQ(cancelled.events.size(), kQueuedEvents + 1);
  EXPECT_EQ(cancelled.end().status.code(), ErrorCode::kCancelled);
  EXPECT_EQ(timed_out.end().status.code(), ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(timed_out.end().usage.n_completion, static_cast<int32_t>(kQueuedEvents));
}

TEST_F(ScriptedServiceLifeTest, ASlowConsumerDoesNotSlowTheOthers) {
  Start();
  Listener& slow = Listen();
  Listener& fast = Listen();
  ASSERT_TRUE(service->Submit(Ask(1, Say(std::string(1'000, 's'))), slow.queue).ok());
  ASSERT_TRUE(service->Submit(Ask(2, Say(std::string(1'000, 'f'))), fast.queue).ok());
  for (int step = 1; step <= 1'001; ++step) {
    service->Step(At(0));
    fast.Drain();
    ASSERT_EQ(fast.events.size(), static_cast<size_t>(step)) << "one event a step, as if alone";
  }
  EXPECT_TRUE(fast.ended());
  EXPECT_FALSE(slow.ended());
}

TEST_F(ScriptedServiceLifeTest, AnIdleServiceStillBeats) {
  Start();
  EXPECT_EQ(service->Step(At(5'000)), At(6'000));
  EXPECT_EQ(service->Load().last_step, At(5'000));
}

TEST_F(ScriptedServiceLifeTest, LoadCountsWaitingAndRunningFromSubmitOn) {
  Start(/*max_running=*/2, /*max_waiting=*/4);
  for (uint64_t id = 1; id <= 3; ++id) {
    ScriptPlay hang = SayWithFault("", ScriptPlay::Fault::kHang, 0);
    ASSERT_TRUE(service->Submit(Ask(id, std::move(hang)), Listen().queue).ok());
  }
  EXPECT_EQ(service->Load().n_waiting, 3);
  service->Step(At(0));
  EXPECT_EQ(service->Load().n_running, 2);
  EXPECT_EQ(service->Load().n_waiting, 1);
  EXPECT_EQ(service->Load().n_running_max, 2);
}

TEST_F(ScriptedServiceLifeTest, MetricsFollowTheRequests) {
  auto value = [](auto metric) { return metrics::Cell(metric).load(); };
  const int64_t running = value(metrics::kRequestsRunning);
  const int64_t waiting = value(metrics::kRequestsWaiting);
  const int64_t steps = value(metrics::kEngineSteps);
  Start(/*max_running=*/1);
  for (uint64_t id = 1; id <= 2; ++id) {
    ASSERT_TRUE(service->Submit(Ask(id, Say("ab")), Listen().queue).ok());
  }
  service->Step(At(0));
  EXPECT_EQ(value(metrics::kRequestsRunning), running + 1);
  EXPECT_EQ(value(metrics::kRequestsWaiting), waiting + 1);
  EXPECT_EQ(value(metrics::kEngineSteps), steps + 1);
  service.reset();
  EXPECT_EQ(value(metrics::kRequestsRunning), running);
  EXPECT_EQ(value(metrics::kRequestsWaiting), waiting);
}

TEST_F(ScriptedServiceLifeTest, CancelAllEndsEveryPhaseAndClosesTheDoor) {
  Start(/*max_running=*/3, /*max_waiting=*/4);
  ScriptPlay sleepy = Say("a");
  sleepy.first = Duration::Seconds(9);
  ASSERT_TRUE(service->Submit(Ask(1, std::move(sleepy)), Listen().queue).ok());
  ASSERT_TRUE(
      service->Submit(Ask(2, SayWithFault("", ScriptPlay::Fault::kHang, 0)), Listen().queue).ok());
  ASSERT_TRUE(service->Submit(Ask(3, Say(std::string(99, 'p'))), Listen().queue).ok());
  ASSERT_TRUE(service->Submit(Ask(4, Say("w")), Listen().queue).ok());
  while (service->Step(At(0)) <= At(0)) {
  }
  ASSERT_TRUE(service->Submit(Ask(5, Say("in the inbox")), Listen().queue).ok());
  service->CancelAll();
  EXPECT_TRUE(service->idle());
  for (Listener& client : listeners) {
    client.Drain();
    ASSERT_TRUE(client.ended());
    EXPECT_EQ(client.end().status.code(), ErrorCode::kOverloaded);
  }
  EXPECT_EQ(service->Submit(Ask(6, Say("late")), Listen().queue).code(), ErrorCode::kOverloaded);
  EXPECT_EQ(service->Step(At(1)), At(1'001));
}

TEST_F(ScriptedServiceLifeTest, DestructionWithWorkInFlightEndsIt) {
  Start(/*max_running=*/1);
  Listener& running = Listen();
  Listener& waiting = Listen();
  ASSERT_TRUE(service->Submit(Ask(1, Say("abc")), running.queue).ok());
  service->Step(At(0));
  ASSERT_TRUE(service->Submit(Ask(2, Say("abc")), waiting.queue).ok());
  service.reset();
  running.Drain();
  waiting.Drain();
  EXPECT_EQ(running.text, "a");
  EXPECT_TRUE(running.ended());
  EXPECT_TRUE(waiting.ended());
}

}  // namespace
}  // namespace sluice::wire
