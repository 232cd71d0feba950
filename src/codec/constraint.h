// Constraint: what the sampler must hold the output to (spec recipe.md §6.2). Text only; whoever
// enforces it compiles it. Pure functions.

#pragma once

#include <cstdint>
#include <string>

#include "codec/conversation.h"

namespace sluice::codec {

struct Constraint {
  enum class Kind : uint8_t { kNone, kToolCall, kToolCallRequired, kJson, kRegex };

  Kind kind = Kind::kNone;
  // The tools as a list of {"type": "function", "function": …}; a JSON schema, empty for any JSON;
  // a regular expression.
  std::string schema;
  int32_t max_calls = 0;  // 0: as many as the model likes
};

const char* NameOf(Constraint::Kind kind);

// The tools' schemas and the response schema are normalized where they are strict.
Constraint ConstraintOf(const Conversation& conversation);

// Replaces the schemas of strict tools by what strict mode keeps of them.
void NormalizeStrictTools(Conversation& conversation);

}  // namespace sluice::codec
