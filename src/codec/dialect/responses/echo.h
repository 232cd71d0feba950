// What a response object repeats of its request (dialect/responses/schema.md). Pure function.

#pragma once

#include <string>
#include <string_view>

#include "codec/dialect/responses/body.h"
#include "wire/request.h"

namespace sluice::codec::responses {

struct EchoParams {
  std::string_view previous;  // the response that was gone on from; empty: none
  wire::RequestClass request_class = wire::RequestClass::kDefault;
  wire::SamplingParams unasked;  // what counts where the request says nothing
};
// Members of a JSON object, without braces.
std::string EchoOf(const Body& body, const EchoParams& params);

}  // namespace sluice::codec::responses
