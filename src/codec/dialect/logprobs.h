// Log probabilities as the OpenAI APIs write them. Pure functions.

#pragma once

#include <span>
#include <string>
#include <string_view>

#include "codec/output_event.h"

namespace sluice::codec {

// Appends entries {token, logprob, bytes, top_logprobs} to a comma-separated list without brackets.
void AppendLogprobs(std::span<const TokenText> tokens, std::string& list);

}  // namespace sluice::codec
