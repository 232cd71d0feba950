// Preparation: hop 2 of one request, its body decoded and rendered here or on a prep pool, while
// its connection waits. Owned by the net thread.

#pragma once

#include <string>

#include "base/status.h"
#include "base/time.h"
#include "codec/dialect.h"
#include "codec/inquiry.h"
#include "serve/connection.h"
#include "serve/prep_job.h"
#include "serve/task.h"

namespace sluice::serve {

// The server as a whole is full; a client may try again soon.
Status Overloaded(std::string message);

struct PrepareParams {
  const codec::Dialect& dialect;
  codec::PrepareContext context;
  Time deadline;
  const codec::Inquiry* inquiry = nullptr;  // null: the request is prepared
};

// x-served-model, and x-sluice-ignored-fields if there are any.
void AddModelHeaders(const Net& net, const std::vector<std::string>& ignored, Headers& headers);

// Takes the request's body and fills `output`, which counts as what the request holds. `spent`:
// time of the work itself. kCancelled: the client is gone.
Async<Status> PrepareBody(Connection& connection,
                          HttpRequest& request,
                          const PrepareParams& params,
                          PrepOutput& output,
                          Duration& spent);

}  // namespace sluice::serve
