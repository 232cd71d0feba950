#include "env/posix/event_bell.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "env/posix/posix_env.h"
#include "env/sim/sim_clock.h"

namespace sluice {
namespace {

TEST(EventBell, ARingBeforeTheWaitIsRemembered) {
  EventBell bell;
  SimClock clock;
  bell.bell().Ring();
  bell.bell().Ring();
  bell.Wait(Time::Max(), clock);  // would not return
}

TEST(EventBell, AWaitUntilTheePastReturnsAtOnce) {
  EventBell bell;
  SimClock clock(Time{1000});
  bell.Wait(Time{1000}, clock);
  bell.Wait(Time{0}, clock);
}

TEST(EventBell, AWaitEndsWhenItsTimeHasCome) {
  EventBell bell;
  PosixEnv posix;
  Clock& clock = posix.env().clock;
  const Time until = clock.Now() + Duration::Millis(20);
  while (clock.Now() < until) bell.Wait(until, clock);
  EXPECT_GE(clock.Now(), until);
}

// Each side may sleep only until the other has moved: a lost ring shows as a hang. The counter is
// plain memory, so the thread sanitizer checks that a ring carries what was written before it.
TEST(EventBell, TwoThreadsWakeEachOtherWithoutLosingARing) {
  constexpr int kTurns = 20'000;
  EventBell ping, pong;
  SimClock clock;
  std::atomic<int> turn{0};
  int counter = 0;
  std::thread other([&] {
    for (int i = 1; i < kTurns; i += 2) {
      while (turn.load(std::memory_order_acquire) != i) pong.Wait(Time::Max(), clock);
      ++counter;
      turn.store(i + 1, std::memory_order_release);
      ping.Ring();
    }
  });
  for (int i = 0; i < kTurns; i += 2) {
    while (turn.load(std::memory_order_acquire) != i) ping.Wait(Time::Max(), clock);
    ++counter;
    turn.store(i + 1, std::memory_order_release);
    pong.Ring();
  }
  other.join();
  EXPECT_EQ(counter, kTurns);
}

// The ring alone orders memory: no other atomic joins the two threads.
TEST(EventBell, ARingPublishesWhatWasWrittenBefore) {
  EventBell bell;
  SimClock clock;
  for (int i = 0; i < 200; ++i) {
    int value = 0;
    std::thread ringer([&] {
      value = 1;
      bell.Ring();
    });
    bell.Wait(Time::Max(), clock);
    ringer.join();
    ASSERT_EQ(value, 1);
  }
}

TEST(EventBell, ManyRingersNeverLeaveTheSleeperBehind) {
  constexpr int kRingers = 4, kItems = 20'000;
  EventBell bell;
  SimClock clock;
  std::atomic<int> n_items{0};
  std::vector<std::thread> ringers;
  for (int r = 0; r < kRingers; ++r) {
    ringers.emplace_back([&] {
      for (int i = 0; i < kItems; ++i) {
        n_items.fetch_add(1, std::memory_order_relaxed);
        bell.Ring();
      }
    });
  }
  while (n_items.load(std::memory_order_relaxed) < kRingers * kItems) bell.Wait(Time::Max(), clock);
  for (std::thread& ringer : ringers) ringer.join();
}

}  // namespace
}  // namespace sluice
