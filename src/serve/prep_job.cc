#include "serve/prep_job.h"

#include <utility>

#include "serve/body.h"

namespace sluice::serve {

Result<PrepOutput> PrepareNow(const codec::Dialect& dialect,
                              const codec::Inquiry* inquiry,
                              std::string_view body,
                              const codec::PrepareContext& context) {
  PrepOutput output;
  if (inquiry == nullptr) {
    SLUICE_TRY(output.prepared, codec::Prepare(dialect, body, context));
  } else {
    SLUICE_TRY(output.answer, inquiry->answer(dialect, body, context));
  }
  return output;
}

PrepJob::PrepJob(Net& net, Params params) : net_(net), params_(std::move(params)) {
  run = &RunWork;
}

bool PrepJob::Abandon() {
  net_.abandoned_bytes.fetch_add(params_.n_charged_bytes, std::memory_order_relaxed);
  State pending = State::kPending;
  if (state_.compare_exchange_strong(pending, State::kAbandoned, std::memory_order_acq_rel))
    return true;
  net_.abandoned_bytes.fetch_sub(params_.n_charged_bytes, std::memory_order_relaxed);
  return false;
}

void PrepJob::RunWork(Work& self) {
  std::unique_ptr<PrepJob> job(static_cast<PrepJob*>(&self));
  Time begin = job->net_.Now();
  job->result_.emplace(job->Prepare());
  job->spent_ = job->net_.Now() - begin;

  State pending = State::kPending;
  bool is_awaited = job->state_.compare_exchange_strong(pending, State::kFinishing);
  if (!is_awaited) {
    Net& net = job->net_;
    int64_t n_bytes = job->params_.n_charged_bytes;
    job.reset();
    net.abandoned_bytes.fetch_sub(n_bytes, std::memory_order_relaxed);
    return;
  }
  ReadyList& ready = job->net_.ready;
  PrepJob* shared = job.release();
  bool must_ring = ready.Link(shared->params_.waiter);
  shared->state_.store(State::kDone, std::memory_order_release);
  // From here on the waiter may destroy the job.
  if (must_ring) ready.Ring();
}

Result<PrepOutput> PrepJob::Prepare() {
  Status abandoned(ErrorCode::kCancelled, "nobody waits for this request");
  if (is_abandoned()) return abandoned;
  std::string body = std::move(params_.body);
  if (!params_.encoding.empty()) {
    SLUICE_TRY(body, DecodeBody(params_.encoding, body, net_.options.max_body_bytes));
  }
  if (is_abandoned()) return abandoned;
  return PrepareNow(params_.dialect, params_.inquiry, body, params_.context);
}

}  // namespace sluice::serve
