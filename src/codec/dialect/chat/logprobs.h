// Log probabilities as Chat writes them. Pure functions.

#pragma once

#include <span>
#include <string>
#include <string_view>

#include "codec/output_event.h"

namespace sluice::codec::chat {

// Appends entries {token, logprob, bytes, top_logprobs} to a comma-separated list without brackets.
void AppendLogprobs(std::span<const TokenText> tokens, std::string& list);

// Appends {"content": [...], "reasoning_content": [...]} of two such lists; an empty one is null.
// The second member exists only with reasoning.
void AppendLogprobsObject(std::string_view content,
                          std::string_view reasoning,
                          bool with_reasoning,
                          std::string& out);

}  // namespace sluice::codec::chat
