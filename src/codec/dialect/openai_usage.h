// Usage as Chat and Completions write it (spec recipe.md §8.5). Pure.

#pragma once

#include <string>

#include "wire/usage.h"

namespace sluice::codec {

struct UsageParams {
  bool with_reasoning;  // completion_tokens_details
};
void AppendOpenAiUsage(const wire::Usage& usage, const UsageParams& params, std::string& out);

}  // namespace sluice::codec
