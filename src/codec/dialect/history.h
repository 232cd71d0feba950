// Checks of a conversation's history that are the same for all dialects. Pure functions.

#pragma once

#include <vector>

#include "base/status.h"
#include "codec/conversation.h"

namespace sluice::codec {

// For the switch missing_reasoning = reject, thinking being on (spec recipe.md §7.1): an
// assistant's turn behind the last user must bring its reasoning, if it has calls or there are
// tools, unless one of its call ids says that there was none.
Status CheckReasoning(const std::vector<Message>& messages, bool has_tools);

}  // namespace sluice::codec
