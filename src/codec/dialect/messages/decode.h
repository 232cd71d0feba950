// hop 2: a Messages body as a DecodedRequest. Pure function; runs on the prep pool.

#pragma once

#include <string_view>

#include "base/result.h"
#include "codec/conversation.h"
#include "codec/dialect.h"

namespace sluice::codec::messages {

Result<DecodedRequest> Decode(std::string_view body, const PrepareContext& context);

}  // namespace sluice::codec::messages
