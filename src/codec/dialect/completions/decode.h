// hop 2: a Completions body as a DecodedRequest. Pure function; runs on the prep pool.

#pragma once

#include <string_view>

#include "base/result.h"
#include "codec/conversation.h"
#include "codec/dialect.h"

namespace sluice::codec::completions {

Result<DecodedRequest> Decode(std::string_view body, const PrepareContext& context);

}  // namespace sluice::codec::completions
