#include "load/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace sluice::load {
namespace {

// An octave has 64 buckets: the middle of one is at most 1/128, 0.8 %, from any of its values.
// Below 128 ns each value has its own.
constexpr int kOctaveBits = 6;
constexpr int64_t kPerOctave = int64_t{1} << kOctaveBits;
constexpr int64_t kOctaves = 63 - kOctaveBits;
constexpr int64_t kBuckets = (kOctaves + 1) * kPerOctave;

int ShiftOf(int64_t ns) {
  const auto n_bits = static_cast<int>(std::bit_width(static_cast<uint64_t>(ns)));
  return std::max(0, n_bits - (kOctaveBits + 1));
}

size_t BucketOf(int64_t ns) {
  const int shift = ShiftOf(ns);
  return static_cast<size_t>(shift * kPerOctave + (ns >> shift));
}

int64_t MiddleOf(int64_t bucket) {
  const int64_t shift = std::max<int64_t>(0, bucket / kPerOctave - 1);
  const int64_t first = (bucket - shift * kPerOctave) << shift;
  return first + (((int64_t{1} << shift) - 1) / 2);
}

}  // namespace

Histogram::Histogram() : buckets_(kBuckets) {}

void Histogram::Record(Duration value) {
  value = std::max(value, Duration());
  ++buckets_[BucketOf(value.ns)];
  ++count_;
  sum_ns_ += static_cast<double>(value.ns);
  min_ = std::min(min_, value);
  max_ = std::max(max_, value);
}

void Histogram::Add(const Histogram& other) {
  for (size_t i = 0; i < buckets_.size(); ++i) buckets_[i] += other.buckets_[i];
  count_ += other.count_;
  sum_ns_ += other.sum_ns_;
  min_ = std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
}

Duration Histogram::mean() const {
  if (count_ == 0) return {};
  return {static_cast<int64_t>(sum_ns_ / static_cast<double>(count_))};
}

Duration Histogram::Quantile(double q) const {
  if (count_ == 0) return {};
  const auto wanted = static_cast<int64_t>(std::ceil(q * static_cast<double>(count_)));
  if (wanted >= count_) return max_;
  int64_t n_seen = 0;
  for (int64_t i = 0; i < kBuckets; ++i) {
    n_seen += buckets_[static_cast<size_t>(i)];
    if (n_seen >= std::max<int64_t>(1, wanted)) {
      return std::clamp(Duration{MiddleOf(i)}, min_, max_);
    }
  }
  return max_;
}

}  // namespace sluice::load
