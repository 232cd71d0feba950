// Histogram: a distribution of durations in buckets whose width grows with the value, so that every
// quantile is within 1 % of the true one, whatever was recorded. 30 KiB, nothing is allocated while
// recording. Plain data.

#pragma once

#include <cstdint>
#include <vector>

#include "base/time.h"

namespace sluice::load {

class Histogram {
 public:
  Histogram();

  // Negative ones count as zero.
  void Record(Duration value);
  void Add(const Histogram& other);

  int64_t count() const { return count_; }
  // Exact; zero if nothing was recorded.
  Duration mean() const;
  Duration max() const { return max_; }
  // The smallest recorded value that at least q of all do not exceed, to within 1 %; q in (0, 1].
  // Zero if nothing was recorded.
  Duration Quantile(double q) const;

 private:
  std::vector<int64_t> buckets_;
  int64_t count_ = 0;
  double sum_ns_ = 0;
  Duration min_ = {INT64_MAX};
  Duration max_;
};

}  // namespace sluice::load
