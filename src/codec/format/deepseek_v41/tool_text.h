// Tools and calls as the model reads them (spec recipe.md §3.4, §3.7). Pure functions.

#pragma once

#include <span>

#include "codec/conversation.h"
#include "codec/format/prompt.h"

namespace sluice::codec::deepseek_v41 {

// The block that tells how to call, and the tools that are not deferred.
void AddTools(std::span<const Tool> tools, Prompt& prompt);

// Tools that became known within the conversation, deferred ones too.
void AddUpdatedTools(std::span<const Tool> tools, Prompt& prompt);

// The calls of an assistant's turn; at least one.
void AddCalls(std::span<const ToolCall> calls, Prompt& prompt);

// The beginning of a calls block, for a model that must call.
void AddCallsOpening(Prompt& prompt);

}  // namespace sluice::codec::deepseek_v41
