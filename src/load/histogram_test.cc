#include "load/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/rng.h"

namespace sluice::load {
namespace {

TEST(Histogram, EveryValueAloneIsWithinOnePercent) {
  for (int64_t ns = 1; ns > 0 && ns < INT64_MAX / 2; ns += 1 + ns / 97) {
    Histogram histogram;
    histogram.Record({ns});
    EXPECT_EQ(histogram.Quantile(0.5).ns, ns);  // its own minimum and maximum
    histogram.Record({0});
    histogram.Record({INT64_MAX});
    const auto got = static_cast<double>(histogram.Quantile(0.5).ns);
    ASSERT_LE(std::abs(got - static_cast<double>(ns)), 0.01 * static_cast<double>(ns)) << ns;
  }
}

TEST(Histogram, QuantilesOfManyValuesAreWithinOnePercent) {
  Histogram histogram;
  std::vector<int64_t> values;
  double sum = 0;
  for (uint64_t i = 0; i < 20'000; ++i) {
    // From microseconds to minutes.
    const double uniform = RandomUniform({.seed = 7, .position = i});
    values.push_back(static_cast<int64_t>(std::exp(std::log(1e3) + uniform * std::log(1e8))));
    histogram.Record({values.back()});
    sum += static_cast<double>(values.back());
  }
  std::sort(values.begin(), values.end());
  for (const double q : {0.001, 0.1, 0.5, 0.9, 0.99, 0.999, 1.0}) {
    const auto rank = static_cast<size_t>(std::ceil(q * static_cast<double>(values.size()))) - 1;
    const auto want = static_cast<double>(values[rank]);
    EXPECT_NEAR(static_cast<double>(histogram.Quantile(q).ns), want, 0.01 * want) << q;
  }
  EXPECT_EQ(histogram.count(), 20'000);
  EXPECT_EQ(histogram.max().ns, values.back());
  EXPECT_NEAR(static_cast<double>(histogram.mean().ns), sum / 20'000, 1);
}

TEST(Histogram, TheSumOfTwoIsTheHistogramOfAll) {
  Histogram one, two, all;
  for (int64_t i = 1; i <= 100; ++i) {
    (i % 2 == 0 ? one : two).Record(Duration::Millis(i));
    all.Record(Duration::Millis(i));
  }
  one.Add(two);
  for (const double q : {0.01, 0.5, 0.99, 1.0}) EXPECT_EQ(one.Quantile(q), all.Quantile(q));
  EXPECT_EQ(one.count(), all.count());
  EXPECT_EQ(one.mean(), all.mean());
}

TEST(Histogram, NothingRecordedIsZero) {
  const Histogram histogram;
  EXPECT_EQ(histogram.Quantile(0.99), Duration());
  EXPECT_EQ(histogram.mean(), Duration());
  EXPECT_EQ(histogram.max(), Duration());
}

TEST(Histogram, ANegativeDurationCountsAsZero) {
  Histogram histogram;
  histogram.Record({-5});
  EXPECT_EQ(histogram.Quantile(1), Duration());
  EXPECT_EQ(histogram.count(), 1);
}

}  // namespace
}  // namespace sluice::load
