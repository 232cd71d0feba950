// Messages of a Chat request (spec recipe.md §7.2). Shape first, meaning later: the order of checks
// is recipe.md §6.1. Pure functions.

#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "codec/conversation.h"

namespace sluice::codec::chat {

// The views live as long as the request's JSON.
struct RawCall {
  std::string_view id;
  std::string_view name;
  std::string_view arguments;
};

struct RawMessage {
  Role role = Role::kUser;
  bool is_developer = false;
  JsonValue content;  // absent or null: none
  std::optional<std::string_view> reasoning;
  std::string_view tool_call_id;
  bool has_calls = false;  // `tool_calls` is there, maybe empty
  std::vector<RawCall> calls;
  bool is_prefix = false;
};

// Appends; types only. `value` is what `messages` holds.
Status ReadMessages(const JsonValue& value, std::vector<RawMessage>& messages);

// Checks what the messages say and how calls and results follow each other.
Status ConvertMessages(const std::vector<RawMessage>& raw, std::vector<Message>& messages);

// Only the last message, and only an assistant's, may be a prefix.
Status CheckPrefixPosition(const std::vector<RawMessage>& raw);

}  // namespace sluice::codec::chat
