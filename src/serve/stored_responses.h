// The paths of stored responses: retrieve, delete, cancel, input items (spec http-api.md §4). Owned
// by the net thread.

#pragma once

#include "serve/net.h"
#include "serve/operations.h"
#include "serve/response.h"

namespace sluice::serve {

Response HandleStoredResponse(Net& net, const Operation& operation);

}  // namespace sluice::serve
