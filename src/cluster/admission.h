// Admission: who may wait, and what those are told who may not. Pure but for the meter, which is
// told the time. Thread-compatible.
//
// The queue is bounded in requests and in tokens of prompts. Nobody who waits is thrown out for
// another, so places are kept for those who are still to come:
//
// 1. The lower a class, the less of the queue it may fill (kClassReserve).
// 2. Of that a key may have kKeyShare times what is still free. One key alone fills four fifths;
//    a second one finds room at once, a third one likewise.
// 3. Whoever cannot be served before its deadline at the present rate is refused now.
//
// 2 is the key's own doing (429), the others are the server's (503, and 529 on Messages).

#pragma once

#include <cstdint>
#include <optional>

#include "base/metrics.h"
#include "base/status.h"
#include "base/time.h"
#include "cluster/fair_queue.h"
#include "wire/request.h"

namespace sluice::cluster {

// Of the free part of the queue, that one key may have.
inline constexpr int64_t kKeyShare = 4;
// Eighths of the queue that a class leaves to those above it.
inline constexpr int64_t kClassReserve[wire::kNumRequestClasses] = {0, 1, 4};

// Bounds of what a refused client is told to wait. So much is added at random, that those who were
// refused together do not come back together.
inline constexpr Duration kLeastRetry = Duration::Seconds(1);
inline constexpr Duration kLongestRetry = Duration::Seconds(60);
inline constexpr double kRetryJitter = 0.25;

// How fast a queue gets shorter: cost handed on, by the time in which something waited. What is
// long ago counts less.
class DrainMeter {
 public:
  // Time has passed; from now on something waits, or nothing does.
  void Update(Time now, bool is_waiting);
  // Of a request that waited.
  void Add(int64_t cost) { cost_ += static_cast<double>(cost); }
  // For so much; nothing while it was not measured.
  std::optional<Duration> TimeFor(int64_t cost) const;

 private:
  bool is_waiting_ = false;
  Time updated_;
  double cost_ = 0;
  double waiting_s_ = 0;
};

class Admission {
 public:
  struct Params {
    int64_t n_requests_max = 0;
    int64_t n_tokens_max = 0;  // a request may exceed it while nothing else waits
  };
  explicit Admission(const Params& params) : params_(params) {}

  // OK, or kRateLimited or kOverloaded with the reason as API code, and with a time to retry after.
  // Counts what it refuses.
  Status Check(const wire::GenerateRequest& request, const FairQueue& queue, Time now) const;

  DrainMeter& meter() { return meter_; }

 private:
  std::optional<metrics::Refusal> Refuse(const wire::GenerateRequest& request,
                                         const FairQueue& queue,
                                         Time now) const;
  Duration RetryAfter(const wire::GenerateRequest& request, int64_t cost) const;

  const Params params_;
  DrainMeter meter_;
};

}  // namespace sluice::cluster
