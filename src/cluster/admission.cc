#include "cluster/admission.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "base/rng.h"

namespace sluice::cluster {
namespace {

using metrics::Refusal;

// Loads change within minutes, and within seconds a few long answers are no rate.
constexpr double kMemory_s = 30;
constexpr double kLeastMeasured_s = 1;
// Far above any deadline, far below what an int64 holds.
constexpr double kLongest_s = 1e6;

int64_t ShareOfClass(int64_t n_max, wire::RequestClass request_class) {
  return n_max - n_max * kClassReserve[static_cast<size_t>(request_class)] / 8;
}

// The bounds are those of the request's class.
std::string Text(Refusal refusal,
                 const Admission::Params& bounds,
                 const FairQueue::Share& total,
                 const FairQueue::Share& own) {
  switch (refusal) {
    case Refusal::kQueueFull:
      return fmt::format("{} requests are waiting; of max-waiting this class fills {}",
                         total.n_requests, bounds.n_requests_max);
    case Refusal::kQueueTokensFull:
      return fmt::format(
          "{} tokens of prompts are waiting; of max-waiting-tokens this class fills {}",
          total.n_tokens, bounds.n_tokens_max);
    case Refusal::kKeyQueueFull:
      return fmt::format("{} requests of this key are waiting; the rest of the queue is for others",
                         own.n_requests);
    case Refusal::kKeyQueueTokensFull:
      return fmt::format(
          "{} tokens of this key's prompts are waiting; the rest of the queue is for others",
          own.n_tokens);
    case Refusal::kDeadline:
      break;
  }
  return "so much is waiting that the request would not begin before its deadline";
}

}  // namespace

void DrainMeter::Update(Time now, bool is_waiting) {
  if (is_waiting_) {
    const double passed_s = (now - updated_).seconds();
    const double kept = std::exp(-passed_s / kMemory_s);
    cost_ *= kept;
    waiting_s_ = waiting_s_ * kept + passed_s;
  }
  is_waiting_ = is_waiting;
  updated_ = now;
}

std::optional<Duration> DrainMeter::TimeFor(int64_t cost) const {
  if (waiting_s_ < kLeastMeasured_s || cost_ <= 0) return std::nullopt;
  const double needed_s = static_cast<double>(cost) * waiting_s_ / cost_;
  return Duration{static_cast<int64_t>(std::min(needed_s, kLongest_s) * 1e9)};
}

std::optional<Refusal> Admission::Refuse(const wire::GenerateRequest& request,
                                         const FairQueue& queue,
                                         Time now) const {
  const FairQueue::Share& total = queue.total();
  const FairQueue::Share own = queue.ShareOf(request.key);
  const int64_t n_prompt = std::ssize(*request.prompt);
  const int64_t n_requests_max = ShareOfClass(params_.n_requests_max, request.request_class);
  const int64_t n_tokens_max = ShareOfClass(params_.n_tokens_max, request.request_class);
  if (total.n_requests >= n_requests_max) return Refusal::kQueueFull;
  if (total.n_requests > 0 && total.n_tokens + n_prompt > n_tokens_max) {
    return Refusal::kQueueTokensFull;
  }
  // Without keys there is nobody to be fair to; what waits first of a key is never too much.
  if (request.key != KeyId() && own.n_requests > 0) {
    if (own.n_requests >= kKeyShare * (n_requests_max - total.n_requests)) {
      return Refusal::kKeyQueueFull;
    }
    if (own.n_tokens + n_prompt > kKeyShare * (n_tokens_max - total.n_tokens)) {
      return Refusal::kKeyQueueTokensFull;
    }
  }
  const std::optional<Duration> wait = meter_.TimeFor(queue.CostBefore(request));
  if (wait && now + *wait > request.deadline) return Refusal::kDeadline;
  return std::nullopt;
}

Duration Admission::RetryAfter(const wire::GenerateRequest& request, int64_t cost) const {
  const Duration wait =
      std::clamp(meter_.TimeFor(cost).value_or(kLeastRetry), kLeastRetry, kLongestRetry);
  const double jitter = kRetryJitter * RandomUniform({.seed = request.id.value});
  return {wait.ns + static_cast<int64_t>(static_cast<double>(wait.ns) * jitter)};
}

Status Admission::Check(const wire::GenerateRequest& request,
                        const FairQueue& queue,
                        Time now) const {
  const std::optional<Refusal> refusal = Refuse(request, queue, now);
  if (!refusal) return Status::Ok();
  metrics::Add(metrics::kAdmissionRefusals, *refusal);
  const bool is_own_doing =
      *refusal == Refusal::kKeyQueueFull || *refusal == Refusal::kKeyQueueTokensFull;
  Params bounds = params_;
  bounds.n_requests_max = ShareOfClass(params_.n_requests_max, request.request_class);
  bounds.n_tokens_max = ShareOfClass(params_.n_tokens_max, request.request_class);
  Status status(is_own_doing ? ErrorCode::kRateLimited : ErrorCode::kOverloaded,
                Text(*refusal, bounds, queue.total(), queue.ShareOf(request.key)));
  status.set_api_code(metrics::LabelTraits<Refusal>::kNames[static_cast<size_t>(*refusal)]);
  status.set_retry_after(RetryAfter(request, queue.CostBefore(request)));
  return status;
}

}  // namespace sluice::cluster
