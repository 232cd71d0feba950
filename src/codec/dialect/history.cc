#include "codec/dialect/history.h"

#include <algorithm>

#include "codec/call_id.h"

namespace sluice::codec {

Status CheckReasoning(const std::vector<Message>& messages, bool has_tools) {
  for (auto m = messages.rbegin(); m != messages.rend() && m->role != Role::kUser; ++m) {
    if (m->role != Role::kAssistant || m->reasoning) continue;
    if (m->calls.empty() && !has_tools) continue;
    const bool says_none = std::ranges::any_of(
        m->calls, [](const ToolCall& call) { return HasEmptyThinkingMark(call.id); });
    if (says_none) continue;
    return Status::Invalid(
        "The `reasoning_content` in the thinking mode must be passed back to the API.");
  }
  return Status::Ok();
}

}  // namespace sluice::codec
