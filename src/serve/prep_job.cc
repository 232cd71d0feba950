#include "serve/prep_job.h"

#include <utility>

#include "serve/body.h"

namespace sluice::serve {

PrepJob::PrepJob(const Net& net, ReadyList& ready, Params params)
    : net_(net), ready_(ready), params_(std::move(params)) {
  run = &RunWork;
}

bool PrepJob::Abandon() {
  State pending = State::kPending;
  return state_.compare_exchange_strong(pending, State::kAbandoned, std::memory_order_acq_rel);
}

void PrepJob::RunWork(Work& self) {
  std::unique_ptr<PrepJob> job(static_cast<PrepJob*>(&self));
  Time begin = job->net_.Now();
  job->result_.emplace(job->Prepare());
  job->spent_ = job->net_.Now() - begin;

  State pending = State::kPending;
  bool is_awaited = job->state_.compare_exchange_strong(pending, State::kFinishing);
  if (!is_awaited) return;
  ReadyList& ready = job->ready_;
  PrepJob* shared = job.release();
  bool must_ring = ready.Link(shared->params_.waiter);
  // From here on the waiter may destroy the job.
  shared->state_.store(State::kDone, std::memory_order_release);
  if (must_ring) ready.Ring();
}

Result<codec::Prepared> PrepJob::Prepare() {
  Status abandoned(ErrorCode::kCancelled, "nobody waits for this request");
  if (is_abandoned()) return abandoned;
  std::string body = std::move(params_.body);
  if (!params_.encoding.empty()) {
    SLUICE_TRY(body, DecodeBody(params_.encoding, body, net_.options.max_body_bytes));
  }
  if (is_abandoned()) return abandoned;
  return codec::Prepare(params_.dialect, body, net_.parts.prepare);
}

}  // namespace sluice::serve
