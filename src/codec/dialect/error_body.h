// The error body of the OpenAI APIs: Chat, Responses, Completions. Pure functions.

#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace sluice::codec {

// What a client may read of `status`: the text of an internal error never leaves the process.
std::string ShownMessage(const Status& status, std::string_view request_id);

// {"error": {message, type, param, code}}
std::string OpenAiErrorBody(const Status& status, std::string_view request_id);

}  // namespace sluice::codec
