// hop 2: a Responses body as a DecodedRequest. Pure but for the store of responses, which it reads;
// runs on the prep pool.

#pragma once

#include <string_view>

#include "base/result.h"
#include "codec/conversation.h"
#include "codec/dialect.h"

namespace sluice::codec::responses {

Result<DecodedRequest> Decode(std::string_view body, const PrepareContext& context);

}  // namespace sluice::codec::responses
