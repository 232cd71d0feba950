// hop 3 of 10: after Render, before Admit.

#include "cluster/router.h"

#include <utility>

namespace sluice::cluster {

Status Router::Submit(wire::GenerateRequest request, wire::EventQueue& out) {
  if (draining_.load(std::memory_order_relaxed)) {
    return Overloaded("the server is shutting down and takes no new requests");
  }
  wire::LoadReport load = target_.Load();
  if (load.n_running + load.n_waiting - load.n_running_max >= params_.max_waiting) {
    return Overloaded("too many requests are waiting");
  }
  Status status = target_.Submit(std::move(request), out);
  if (status.code() == ErrorCode::kOverloaded && status.retry_after() == Duration()) {
    status.set_retry_after(params_.retry_after);
  }
  return status;
}

Status Router::Overloaded(const char* message) const {
  Status status(ErrorCode::kOverloaded, message);
  status.set_retry_after(params_.retry_after);
  return status;
}

}  // namespace sluice::cluster
