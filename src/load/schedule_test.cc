#include "load/schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace sluice::load {
namespace {

constexpr Time kStart{1'000'000};
Time At(double seconds) { return kStart + Duration{static_cast<int64_t>(seconds * 1e9)}; }

std::vector<Job> All(const Schedule::Params& params) {
  Schedule schedule(params, kStart);
  std::vector<Job> jobs;
  while (const auto due = schedule.next_due()) {
    schedule.Advance(*due, 1);
    while (const auto job = schedule.Take(*due)) jobs.push_back(*job);
  }
  EXPECT_TRUE(schedule.over(At(1e6)));
  return jobs;
}

TEST(Schedule, ConstantArrivalsAreOnePeriodApart) {
  const auto jobs = All({.rate = 4, .arrivals = ArrivalKind::kConstant, .n_jobs = 100});
  ASSERT_EQ(jobs.size(), 100u);
  for (int64_t i = 0; i < 100; ++i) {
    EXPECT_EQ(jobs[static_cast<size_t>(i)].due, At(0.25 * static_cast<double>(i + 1)));
    EXPECT_EQ(jobs[static_cast<size_t>(i)].number, i);
  }
}

TEST(Schedule, PoissonGapsHaveTheMeanAndTheSpreadOfAnExponential) {
  constexpr int64_t kJobs = 100'000;
  const auto jobs = All({.rate = 50, .seed = 11, .n_jobs = kJobs});
  ASSERT_EQ(std::ssize(jobs), kJobs);
  double sum = 0, squares = 0;
  Time last = kStart;
  for (const Job& job : jobs) {
    const double gap = (job.due - last).seconds();
    ASSERT_GE(gap, 0);
    sum += gap;
    squares += gap * gap;
    last = job.due;
  }
  // The mean of n exponentials deviates by mean / sqrt(n), the variance by about sqrt(8 / n) of
  // itself; four deviations.
  const double n = kJobs;
  const double mean = sum / n;
  EXPECT_NEAR(mean, 0.02, 4 * 0.02 / std::sqrt(n));
  EXPECT_NEAR(squares / n - mean * mean, 0.0004, 4 * 0.0004 * std::sqrt(8 / n));
}

TEST(Schedule, TheSeedDecidesTheArrivals) {
  const auto one = All({.rate = 5, .seed = 1, .n_jobs = 10});
  const auto same = All({.rate = 5, .seed = 1, .n_jobs = 10});
  const auto other = All({.rate = 5, .seed = 2, .n_jobs = 10});
  for (size_t i = 0; i < 10; ++i) EXPECT_EQ(one[i].due, same[i].due);
  EXPECT_NE(one[0].due, other[0].due);
}

TEST(Schedule, WhatNobodyTakesKeepsTheTimeAtWhichItWasDue) {
  Schedule schedule(
      {.rate = 10, .arrivals = ArrivalKind::kConstant, .n_jobs = 5, .max_backlog = 100}, kStart);
  schedule.Advance(At(10), 0);
  EXPECT_EQ(schedule.n_waiting(), 5);
  for (int i = 1; i <= 5; ++i) {
    EXPECT_FALSE(schedule.over(At(10)));
    EXPECT_EQ(schedule.Take(At(10))->due, At(0.1 * i));
  }
  EXPECT_TRUE(schedule.over(At(10)));
  EXPECT_EQ(schedule.n_waiting_max(), 5);
}

TEST(Schedule, ABacklogThatIsFullDropsAndCounts) {
  Schedule schedule({.rate = 10, .arrivals = ArrivalKind::kConstant, .n_jobs = 9, .max_backlog = 3},
                    kStart);
  schedule.Advance(At(10), 1);
  EXPECT_EQ(schedule.n_waiting(), 4);  // one of them goes out at once
  EXPECT_EQ(schedule.n_dropped(), 5);
  EXPECT_EQ(schedule.Take(At(10))->number, 0);
  EXPECT_EQ(schedule.n_waiting_max(), 3);
}

TEST(Schedule, ADurationEndsArrivals) {
  const auto jobs =
      All({.rate = 10, .arrivals = ArrivalKind::kConstant, .duration = Duration::Millis(1'050)});
  EXPECT_EQ(jobs.size(), 10u);
}

TEST(Schedule, AClosedLoopIsDueWhenAsked) {
  Schedule schedule({.n_jobs = 2, .duration = Duration::Seconds(5)}, kStart);
  EXPECT_FALSE(schedule.next_due());
  EXPECT_EQ(schedule.Take(At(1))->due, At(1));
  EXPECT_FALSE(schedule.over(At(2)));
  EXPECT_TRUE(schedule.over(At(5)));
  EXPECT_EQ(schedule.Take(At(2))->number, 1);
  EXPECT_FALSE(schedule.Take(At(2)));
}

}  // namespace
}  // namespace sluice::load
