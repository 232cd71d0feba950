#include "env/sim/sim_clock.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(SimClock, StandsStillUntilItIsMoved) {
  SimClock clock(Time{5}, WallTime{1'000'000'000'005});
  EXPECT_EQ(clock.Now(), Time{5});
  EXPECT_EQ(clock.Now(), Time{5});
  clock.Advance(Duration::Seconds(2));
  EXPECT_EQ(clock.Now(), Time{2'000'000'005});
  EXPECT_EQ(clock.Wall(), WallTime{1'002'000'000'005});
  clock.AdvanceTo(Time{3'000'000'000});
  EXPECT_EQ(clock.Now(), Time{3'000'000'000});
  clock.AdvanceTo(clock.Now());
}

TEST(SimClockDeathTest, TimeDoesNotGoBack) {
  SimClock clock(Time{5});
  EXPECT_DEATH(clock.AdvanceTo(Time{4}), "CHECK failed");
}

TEST(Time, NoDeadlineStaysNoDeadline) {
  EXPECT_EQ(Time::Max() + Duration::Seconds(1), Time::Max());
  EXPECT_EQ((Time{1} + Duration{INT64_MAX}), Time::Max());
  EXPECT_EQ((Time{3} + Duration::Nanos(-1)), Time{2});
}

}  // namespace
}  // namespace sluice
