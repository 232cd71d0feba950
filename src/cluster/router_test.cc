#include "cluster/router.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "base/ready_list.h"
#include "wire/scripted_service.h"

namespace sluice::cluster {
namespace {

// Notes what it is told and answers what it was told to.
class FakeTarget final : public wire::TokenService {
 public:
  Status Submit(wire::GenerateRequest request, wire::EventQueue& out) override {
    submitted.push_back(request.id);
    last_queue = &out;
    return answer;
  }
  void Cancel(RequestId id) override { cancelled.push_back(id); }
  wire::LoadReport Load() const override { return load; }

  Status answer;
  wire::LoadReport load{.n_waiting = 0, .n_running = 0, .n_running_max = 8, .last_step = {}};
  std::vector<RequestId> submitted;
  std::vector<RequestId> cancelled;
  wire::EventQueue* last_queue = nullptr;
};

class RouterTest : public testing::Test {
 protected:
  Status Submit(uint64_t id) {
    wire::GenerateRequest request;
    request.id = RequestId(id);
    return router.Submit(std::move(request), queue);
  }

  FakeTarget target;
  Router router{{.max_waiting = 2, .retry_after = Duration::Seconds(3)}, target};
  ReadyList ready{Bell{}};
  ReadyList::Node node;
  wire::EventQueue queue{ready, node};
};

TEST_F(RouterTest, PassesRequestsCancelsAndLoadThrough) {
  target.load.n_running = 5;
  EXPECT_TRUE(Submit(7).ok());
  EXPECT_EQ(target.submitted, std::vector<RequestId>{RequestId(7)});
  EXPECT_EQ(target.last_queue, &queue);
  router.Cancel(RequestId(7));
  router.Cancel(RequestId(8));
  EXPECT_EQ(target.cancelled, (std::vector<RequestId>{RequestId(7), RequestId(8)}));
  EXPECT_EQ(router.Load().n_running, 5);
}

TEST_F(RouterTest, RequestsThatFindASlotDoNotCountAsWaiting) {
  target.load.n_waiting = 8;  // all of them start with the next step
  EXPECT_TRUE(Submit(1).ok());
  target.load.n_waiting = 9;
  EXPECT_TRUE(Submit(2).ok());
}

TEST_F(RouterTest, RefusesWithRetryAfterWhenTooManyWait) {
  target.load.n_running = 8;
  target.load.n_waiting = 1;
  EXPECT_TRUE(Submit(1).ok());
  target.load.n_waiting = 2;
  Status status = Submit(2);
  EXPECT_EQ(status.code(), ErrorCode::kOverloaded);
  EXPECT_EQ(status.retry_after(), Duration::Seconds(3));
  EXPECT_EQ(target.submitted.size(), 1u) << "the target was not asked";
}

TEST_F(RouterTest, AnOverloadedTargetIsPassedOnWithRetryAfter) {
  target.answer = Status(ErrorCode::kOverloaded, "full");
  EXPECT_EQ(Submit(1).retry_after(), Duration::Seconds(3));
  target.answer.set_retry_after(Duration::Millis(50));
  EXPECT_EQ(Submit(2).retry_after(), Duration::Millis(50)) << "the target knows better";
}

TEST_F(RouterTest, OtherRefusalsPassUnchanged) {
  target.answer = Status(ErrorCode::kContextLength, "too long");
  Status status = Submit(1);
  EXPECT_EQ(status.code(), ErrorCode::kContextLength);
  EXPECT_EQ(status.message(), "too long");
  EXPECT_EQ(status.retry_after(), Duration());
}

wire::GenerateRequest Ask(uint64_t id, wire::ScriptPlay play) {
  wire::GenerateRequest request;
  request.id = RequestId(id);
  request.n_max = 100;
  request.prompt = std::make_shared<const std::vector<TokenId>>(1, TokenId(1));
  request.script = std::make_unique<const wire::ScriptPlay>(std::move(play));
  return request;
}

TEST(RouterBeforeScriptedService, WhatWaitsBeyondTheSlotsIsBounded) {
  wire::ScriptedService service({.max_running = 1, .max_waiting = 8, .bell = {}});
  Router router({.max_waiting = 1, .retry_after = Duration::Seconds(1)}, service);
  ReadyList ready{Bell{}};
  struct Stream {
    explicit Stream(ReadyList& list) : queue(list, node) {}
    ReadyList::Node node;
    wire::EventQueue queue;
  };
  Stream running(ready), waiting(ready), refused(ready);
  wire::ScriptPlay play;
  play.ids = {TokenId('a'), TokenId('b')};
  ASSERT_TRUE(router.Submit(Ask(1, play), running.queue).ok());
  ASSERT_TRUE(router.Submit(Ask(2, play), waiting.queue).ok());
  EXPECT_EQ(router.Submit(Ask(3, play), refused.queue).code(), ErrorCode::kOverloaded);
  while (!service.idle()) service.Step(Time{});
  for (Stream* stream : {&running, &waiting}) {
    wire::TokenEvent event;
    while (stream->queue.TryPop(event) && event.end == nullptr) {
    }
    ASSERT_NE(event.end, nullptr);
    EXPECT_EQ(event.end->finish, wire::FinishReason::kEnd);
  }
}

}  // namespace
}  // namespace sluice::cluster
