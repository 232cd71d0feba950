// Ids of calls (spec recipe.md §8.6): `call_`, two digits of the index, `_`, twenty random letters
// and digits, four digits of a checksum. The mark `ET_` before the random part says that the model
// called without a thought; it is recognised when the history comes back. Pure functions.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "codec/conversation.h"

namespace sluice::codec {

struct CallIdParams {
  uint64_t entropy = 0;  // of the answer
  int32_t choice = 0;
  int32_t call = 0;
  bool without_thought = false;  // thinking was on and no reasoning came
};
std::string MakeCallId(const CallIdParams& params);

// Also of an id whose underscores a client removed.
bool HasEmptyThinkingMark(std::string_view call_id);
// Of any of the calls of a turn.
bool HasEmptyThinkingMark(std::span<const ToolCall> calls);

}  // namespace sluice::codec
