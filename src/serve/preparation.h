// Preparation: hop 2 of one request, its body decoded and rendered here or on a prep pool, while
// its connection waits. Owned by the net thread.

#pragma once

#include <string>

#include "base/status.h"
#include "base/time.h"
#include "codec/dialect.h"
#include "serve/connection.h"
#include "serve/task.h"

namespace sluice::serve {

// The server as a whole is full; a client may try again soon.
Status Overloaded(std::string message);

struct PrepareParams {
  const codec::Dialect& dialect;
  codec::PrepareContext context;
  Time deadline;
};

// Takes the request's body and fills `prepared`, which counts as what the request holds. `spent`:
// time of the work itself. kCancelled: the client is gone.
Async<Status> PrepareBody(Connection& connection,
                          HttpRequest& request,
                          const PrepareParams& params,
                          codec::Prepared& prepared,
                          Duration& spent);

}  // namespace sluice::serve
