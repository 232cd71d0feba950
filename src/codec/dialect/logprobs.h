// Log probabilities as the OpenAI APIs write them. Pure functions.

#pragma once

#include <span>
#include <string>
#include <string_view>

#include "codec/output_event.h"

namespace sluice::codec {

// What is told of a log probability: -9999 for what lies outside the reported range.
float ShownLogprob(float logprob);

// Appends a token as a JSON string. One that is not UTF-8 by itself is shown as \xNN.
void AppendTokenText(std::string_view text, std::string& out);

// Appends entries of vLLM's `prompt_logprobs` to a comma-separated list without brackets: for each
// token an object of itself and its first n_top alternatives, by id; null for one without a score.
void AppendPromptLogprobs(std::span<const PromptToken> tokens, int32_t n_top, std::string& list);

// Appends entries {token, logprob, bytes, top_logprobs} to a comma-separated list without brackets.
void AppendLogprobs(std::span<const TokenText> tokens, std::string& list);

}  // namespace sluice::codec
