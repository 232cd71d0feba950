// What the desk promises to every service beyond what ScriptedService's tests show.

#include "wire/request_desk.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>
#include <vector>

#include "wire/scripted_service_test_impl.h"

namespace sluice::wire {
namespace {

class RequestDeskTest : public testing::Test {
 protected:
  Listener& Submit(uint64_t id, Time deadline = Time::Max()) {
    Listener& client = listeners.emplace_back(ready);
    GenerateRequest request = Ask(id, ScriptPlay());
    request.deadline = deadline;
    SLUICE_CHECK(desk.Submit(std::move(request), client.queue).ok());
    return client;
  }
  // Begins all that can begin.
  std::vector<RequestDesk::Seat*> BeginAll() {
    std::vector<RequestDesk::Seat*> begun;
    while (RequestDesk::Seat* seat = desk.FirstInLine()) {
      desk.Begin(*seat);
      begun.push_back(seat);
    }
    return begun;
  }

  ReadyList ready{Bell{}};
  std::deque<Listener> listeners;
  RequestDesk desk{{.n_running_max = 3, .n_waiting_max = 4, .bell = {}}};
};

TEST_F(RequestDeskTest, EachBegunRequestHasASlotOfItsOwnUntilItsEnd) {
  for (uint64_t id = 1; id <= 4; ++id) Submit(id);
  desk.BeginStep(At(0));
  EXPECT_EQ(desk.FirstInLine()->slot(), -1);
  const std::vector<RequestDesk::Seat*> begun = BeginAll();
  ASSERT_EQ(begun.size(), 3u);
  std::set<int32_t> slots;
  for (const RequestDesk::Seat* seat : begun) slots.insert(seat->slot());
  EXPECT_EQ(slots, (std::set<int32_t>{0, 1, 2}));

  const int32_t slot = begun[1]->slot();
  desk.Fail(*begun[1], Status(ErrorCode::kInternal, "sick"));
  EXPECT_EQ(begun[1]->slot(), -1);
  EXPECT_EQ(desk.EndStep(At(0)), At(0)) << "the fourth can begin";
  const std::vector<RequestDesk::Seat*> next = BeginAll();
  ASSERT_EQ(next.size(), 1u);
  EXPECT_EQ(next[0]->request().id, RequestId(4));
  EXPECT_EQ(next[0]->slot(), slot);
}

TEST_F(RequestDeskTest, AReadyRequestIsEndedAtItsDeadlineBeforeItIsSeenAgain) {
  Listener& late = Submit(1, At(10));
  Listener& punctual = Submit(2, At(20));
  desk.BeginStep(At(0));
  BeginAll();
  desk.BeginStep(At(10));
  ASSERT_EQ(desk.ready().size(), 1u);
  EXPECT_EQ(desk.ready().front()->request().id, RequestId(2));
  late.Drain();
  punctual.Drain();
  EXPECT_EQ(late.end().status.code(), ErrorCode::kDeadlineExceeded);
  EXPECT_FALSE(punctual.ended());
}

TEST_F(RequestDeskTest, AStepIsSeenFromItsBeginOn) {
  Submit(1);
  desk.BeginStep(At(60'000));
  EXPECT_EQ(desk.Load().last_step, At(60'000)) << "else a long first step would look wedged";
}

TEST_F(RequestDeskTest, EventsAreNumberedByTheTokensBeforeThem) {
  Listener& client = Submit(1);
  desk.BeginStep(At(0));
  RequestDesk::Seat& seat = *BeginAll().front();
  for (std::string_view text : {"ab", "c"}) {
    TokenEvent event;
    for (char c : text) event.tokens.emplace_back(c);
    ASSERT_FALSE(desk.PauseIfFull(seat));
    desk.Send(seat, std::move(event));
  }
  EXPECT_EQ(seat.n_sent(), 3);
  TokenEvent last;
  last.tokens.emplace_back('d');
  desk.End(seat, std::move(last), FinishReason::kLength);
  client.Drain();
  EXPECT_EQ(client.text, "abcd");
  EXPECT_EQ(client.events[1].first_index, 2);
  EXPECT_EQ(client.events[2].first_index, 3);
  EXPECT_EQ(client.end().usage.n_completion, 4);
  EXPECT_TRUE(desk.idle());
}

}  // namespace
}  // namespace sluice::wire
