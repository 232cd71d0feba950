#include "wire/timer_heap.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <random>

namespace sluice::wire {
namespace {

TEST(TimerHeap, AnswersTheEarliestSeatAndNeverWhenEmpty) {
  TimerHeap timers(4);
  EXPECT_EQ(timers.next(), Time::Max());
  timers.Set(2, Time{30});
  timers.Set(0, Time{10});
  timers.Set(3, Time{20});
  EXPECT_EQ(timers.next(), Time{10});
  EXPECT_EQ(timers.next_seat(), 0);
  timers.Clear(0);
  EXPECT_EQ(timers.next_seat(), 3);
}

TEST(TimerHeap, NeverIsNotKept) {
  TimerHeap timers(1);
  timers.Set(0, Time::Max());
  timers.Set(0, Time{5});  // still unset, so this is legal
  EXPECT_EQ(timers.next(), Time{5});
}

TEST(TimerHeap, ClearingAnUnsetSeatDoesNothing) {
  TimerHeap timers(2);
  timers.Set(1, Time{7});
  timers.Clear(0);
  timers.Clear(0);
  EXPECT_EQ(timers.next_seat(), 1);
}

TEST(TimerHeap, AgreesWithASortedMapUnderRandomUse) {
  constexpr int32_t kSeats = 64;
  const int seed = testing::UnitTest::GetInstance()->random_seed();
  std::printf("seed %d (--gtest_random_seed)\n", seed);
  std::mt19937_64 random(static_cast<uint64_t>(seed));
  TimerHeap timers(kSeats);
  std::map<int32_t, Time> expected;
  for (int i = 0; i < 20'000; ++i) {
    int32_t seat = static_cast<int32_t>(random() % kSeats);
    if (expected.contains(seat)) {
      timers.Clear(seat);
      expected.erase(seat);
    } else {
      Time due{static_cast<int64_t>(random() % 100)};  // many ties
      timers.Set(seat, due);
      expected[seat] = due;
    }
    Time earliest = Time::Max();
    for (const auto& [other, due] : expected) earliest = std::min(earliest, due);
    ASSERT_EQ(timers.next(), earliest);
    if (!expected.empty()) {
      ASSERT_EQ(expected.at(timers.next_seat()), earliest);
    }
  }
}

}  // namespace
}  // namespace sluice::wire
