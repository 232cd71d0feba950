// What operators and clients ask besides tokens: health, readiness, metrics, models, version, the
// admin port. Owned by the net thread.

#pragma once

#include <string_view>

#include "base/metrics.h"
#include "serve/accounts.h"
#include "serve/net.h"
#include "serve/request_parser.h"
#include "serve/response.h"
#include "serve/routes.h"

namespace sluice::serve {

struct Operation {
  const RouteMatch& match;
  const RequestHead& head;
  std::string_view request_id;
  const Account* account;  // null: the path needs no key
};
Response HandleOperation(Net& net, const Operation& operation);

// The label under which a response to this request is counted.
metrics::Route RouteLabel(const RouteMatch& match);

}  // namespace sluice::serve
