// hop 3 of 10: after Render, before Admit.

#include "cluster/router.h"

#include <memory>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/metrics.h"
#include "base/result.h"

namespace sluice::cluster {
namespace {

static_assert(metrics::LabelTraits<metrics::Class>::kCount == wire::kNumRequestClasses);

Status ShuttingDown() { return {ErrorCode::kOverloaded, "the server is shutting down"}; }

// `sign` 1: one more waits; -1: one less.
void CountWaiting(const WaitingRequest& waiting, int64_t sign) {
  metrics::AddGauge(metrics::kRequestsWaiting, sign);
  metrics::AddGauge(metrics::kWaitingTokens, sign * waiting.n_prompt());
}

void SendEnd(wire::EventQueue& out, int64_t n_prompt, Status status) {
  wire::TokenEvent event;
  event.end = std::make_unique<wire::EventEnd>();
  event.end->finish = wire::FinishReason::kError;
  event.end->status = std::move(status);
  event.end->usage.n_prompt = static_cast<int32_t>(n_prompt);
  SLUICE_CHECK(out.TryPush(event));
}

}  // namespace

Router::Router(const Params& params, const Clock& clock, wire::TokenService& target)
    : bell_(params.bell), clock_(clock), target_(target), admission_(params.queue) {}

Router::~Router() { CancelAll(); }

Status Router::Submit(wire::GenerateRequest request, wire::EventQueue& out) {
  // Before it waits: behind a place in the queue a refusal could only be an answer that fails.
  SLUICE_TRY(target_.Check(request));
  bool is_next_late = false;
  {
    MutexLock lock(mu_);
    if (is_closed_) return ShuttingDown();
    const Time now = clock_.Now();
    const bool waits = !queue_.empty() || !HasPlace();
    if (waits) SLUICE_TRY(admission_.Check(request, queue_, now));
    is_next_late = request.deadline < queue_.next_deadline();
    WaitingRequest waiting{.request = std::move(request), .out = &out, .since = now};
    CountWaiting(waiting, 1);
    queue_.Push(std::move(waiting));
    if (!waits) return target_.Submit(TakeNext(now).request, out);
    admission_.meter().Update(now, true);
  }
  if (is_next_late) bell_.Ring();
  return Status::Ok();
}

bool Router::HasPlace() const {
  const wire::LoadReport load = target_.Load();
  return load.n_running + load.n_waiting < load.n_running_max;
}

WaitingRequest Router::TakeNext(Time now) {
  WaitingRequest next = queue_.Pop(now);
  CountWaiting(next, -1);
  next.request.waited = now - next.since;
  metrics::Observe(metrics::kQueueTime, next.request.waited.seconds());
  metrics::Add(metrics::kRequestsDispatched,
               static_cast<metrics::Class>(next.request.request_class));
  return next;
}

Time Router::Step(Time now) {
  MutexLock lock(mu_);
  DrainMeter& meter = admission_.meter();
  meter.Update(now, !queue_.empty());
  while (std::optional<WaitingRequest> late = queue_.TakeLate(now)) {
    End(std::move(*late),
        Status(ErrorCode::kDeadlineExceeded, "the request did not begin by its deadline"));
  }
  while (!queue_.empty() && HasPlace()) {
    WaitingRequest next = TakeNext(now);
    meter.Add(CostOf(next.request));
    const int64_t n_prompt = next.n_prompt();
    Status status = target_.Submit(std::move(next.request), *next.out);
    if (!status.ok()) SendEnd(*next.out, n_prompt, std::move(status));
  }
  meter.Update(now, !queue_.empty());
  return queue_.next_deadline();
}

void Router::End(WaitingRequest waiting, Status status) {
  CountWaiting(waiting, -1);
  SendEnd(*waiting.out, waiting.n_prompt(), std::move(status));
}

void Router::Cancel(RequestId id) {
  {
    MutexLock lock(mu_);
    if (std::optional<WaitingRequest> waiting = queue_.Remove(id)) {
      return End(std::move(*waiting), Status(ErrorCode::kCancelled, "the request was cancelled"));
    }
  }
  target_.Cancel(id);
}

wire::LoadReport Router::Load() const {
  wire::LoadReport report = target_.Load();
  MutexLock lock(mu_);
  report.n_waiting += queue_.total().n_requests;
  return report;
}

void Router::CancelAll() {
  MutexLock lock(mu_);
  is_closed_ = true;
  while (std::optional<WaitingRequest> waiting = queue_.TakeAny()) {
    End(std::move(*waiting), ShuttingDown());
  }
}

}  // namespace sluice::cluster
