// TokenService: whoever turns a request into tokens (ARCHITECTURE.md §5.1). The seam between those
// that speak text and those that compute: serve on one side; engine, router, split, remote and
// scripted services on the other.
//
// Thread-safe: each function may be called from any thread and never blocks.

#pragma once

#include "base/ids.h"
#include "base/status.h"
#include "wire/event_queue.h"
#include "wire/load.h"
#include "wire/request.h"

namespace sluice::wire {

class TokenService {
 public:
  virtual ~TokenService() = default;

  // Takes the request or refuses it now (kOverloaded, kRateLimited, kContextLength, ...). After OK
  // exactly one terminal event follows on `out`, whatever happens; `out` must live until it was
  // popped.
  virtual Status Submit(GenerateRequest request, EventQueue& out) = 0;

  // Why Submit would refuse the request whatever else there is to do: before it is let wait.
  virtual Status Check(const GenerateRequest& request) const = 0;

  // Idempotent; unknown ids are ignored. The terminal event still comes (kCancelled, or whatever
  // overtook it).
  virtual void Cancel(RequestId id) = 0;

  virtual LoadReport Load() const = 0;
};

}  // namespace sluice::wire
