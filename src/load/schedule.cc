#include "load/schedule.h"

#include <algorithm>
#include <cmath>

#include "base/rng.h"

namespace sluice::load {

Schedule::Schedule(const Params& params, Time start) : params_(params), start_(start) {
  if (is_open()) DrawNext();
}

// Constant: the first job is due one period after the start, like the mean of the others.
void Schedule::DrawNext() {
  const auto position = static_cast<uint64_t>(number_);
  if (params_.arrivals == ArrivalKind::kConstant) {
    next_s_ = static_cast<double>(number_ + 1) / params_.rate;
  } else {
    next_s_ -= std::log(RandomUniform({.seed = params_.seed, .position = position})) / params_.rate;
  }
  constexpr double kForever = 1e9;
  next_ = start_ + Duration{static_cast<int64_t>(std::min(next_s_, kForever) * 1e9)};
}

bool Schedule::MayStart(Time at) const {
  if (params_.n_jobs > 0 && number_ >= params_.n_jobs) return false;
  return params_.duration.ns == 0 || at - start_ < params_.duration;
}

std::optional<Time> Schedule::next_due() const {
  if (!is_open() || !MayStart(next_)) return std::nullopt;
  return next_;
}

void Schedule::Advance(Time now, int64_t n_free) {
  while (is_open() && next_ <= now && MayStart(next_)) {
    if (n_waiting() < params_.max_backlog + n_free) {
      backlog_.push_back({.number = number_, .due = next_});
    } else {
      ++n_dropped_;
    }
    ++number_;
    DrawNext();
  }
  n_waiting_max_ = std::max(n_waiting_max_, n_waiting() - n_free);
}

std::optional<Job> Schedule::Take(Time now) {
  if (!is_open()) {
    if (!MayStart(now)) return std::nullopt;
    return Job{.number = number_++, .due = now};
  }
  if (backlog_.empty()) return std::nullopt;
  const Job job = backlog_.front();
  backlog_.pop_front();
  return job;
}

bool Schedule::over(Time now) const {
  return is_open() ? backlog_.empty() && !next_due() : !MayStart(now);
}

}  // namespace sluice::load
