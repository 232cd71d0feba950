// hop 3 of 10: after Render, before Admit.

#include "cluster/router.h"

#include <utility>

namespace sluice::cluster {

Status Router::Submit(wire::GenerateRequest request, wire::EventQueue& out) {
  wire::LoadReport load = target_.Load();
  if (load.n_running + load.n_waiting - load.n_running_max >= params_.max_waiting) {
    Status full(ErrorCode::kOverloaded, "too many requests are waiting");
    full.set_retry_after(params_.retry_after);
    return full;
  }
  Status status = target_.Submit(std::move(request), out);
  if (status.code() == ErrorCode::kOverloaded && status.retry_after() == Duration()) {
    status.set_retry_after(params_.retry_after);
  }
  return status;
}

}  // namespace sluice::cluster
