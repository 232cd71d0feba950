// Schedule: which request is due when. Pure: it is told the time. Owned by one thread.
//
//   closed loop   a request is due when a lane asks for one
//   open loop     requests are due at times of their own, fixed by rate and seed before the first
//                 one is sent; what no lane takes waits in a bounded backlog, keeping its time
//
// 1. Due times of an open loop depend on nothing that the server does: a stall of the server is in
// the latencies of all that were due meanwhile (no coordinated omission).
// 2. Numbers are handed out in order of due times, each once.

#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "base/time.h"
#include "load/options.h"

namespace sluice::load {

struct Job {
  int64_t number = 0;
  Time due;
};

class Schedule {
 public:
  struct Params {
    double rate = 0;  // 0: closed loop
    ArrivalKind arrivals = ArrivalKind::kPoisson;
    uint64_t seed = 0;
    int64_t n_jobs = 0;  // 0: not limited
    Duration duration;   // zero: not limited
    int32_t max_backlog = 0;
  };
  Schedule(const Params& params, Time start);

  // Moves what is due by `now` into the backlog. `n_free`: lanes that will take from it at once.
  void Advance(Time now, int64_t n_free);
  // When Advance has more to do; nullopt: never.
  std::optional<Time> next_due() const;

  // The next job, if one is due.
  std::optional<Job> Take(Time now);
  // No job waits and none will come.
  bool over(Time now) const;

  int64_t n_waiting() const { return std::ssize(backlog_); }
  int64_t n_waiting_max() const { return n_waiting_max_; }
  int64_t n_dropped() const { return n_dropped_; }

 private:
  bool is_open() const { return params_.rate > 0; }
  bool MayStart(Time at) const;
  void DrawNext();

  const Params params_;
  const Time start_;
  Time next_;          // open loop: of job number_
  double next_s_ = 0;  // the same in seconds since start: a sum of nanoseconds would drift
  int64_t number_ = 0;
  std::deque<Job> backlog_;
  int64_t n_waiting_max_ = 0;
  int64_t n_dropped_ = 0;
};

}  // namespace sluice::load
