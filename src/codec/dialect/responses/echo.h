// What a response object repeats of its request (dialect/responses/schema.md). Pure function.

#pragma once

#include <string>
#include <string_view>

#include "codec/dialect/responses/body.h"
#include "wire/request.h"

namespace sluice::codec::responses {

// Members of a JSON object, without braces. `previous`: the response that was gone on from.
std::string EchoOf(const Body& body, std::string_view previous, wire::RequestClass request_class);

}  // namespace sluice::codec::responses
