// Router: the place where requests are admitted, in front of whoever serves them. It passes through
// to one target and bounds what may wait there; placement and fairness will live here too, so that
// there is one queue and one policy, also before a single engine.
//
// Thread-safe. The bound is checked against a snapshot of the target's load: Submits that race may
// exceed it by their number; the target's own bound is exact.

#pragma once

#include <cstdint>

#include "base/time.h"
#include "wire/token_service.h"

namespace sluice::cluster {

class Router final : public wire::TokenService {
 public:
  struct Params {
    int64_t max_waiting = 1024;                   // requests beyond those that find a slot
    Duration retry_after = Duration::Seconds(1);  // told to whom we refuse
  };
  // `target` outlives the router.
  Router(const Params& params, wire::TokenService& target) : params_(params), target_(target) {}

  // hop 3. kOverloaded with a retry_after when full; else what the target answers.
  Status Submit(wire::GenerateRequest request, wire::EventQueue& out) override;
  void Cancel(RequestId id) override { target_.Cancel(id); }
  wire::LoadReport Load() const override { return target_.Load(); }

 private:
  const Params params_;
  wire::TokenService& target_;
};

}  // namespace sluice::cluster
