// Tools and tool choice of a Chat request (spec recipe.md §7.1, §7.2). Shape first, meaning later:
// the order of checks is recipe.md §6.1. Pure functions.

#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "codec/conversation.h"

namespace sluice::codec::chat {

// As the client wrote it, types checked. The views live as long as the request's JSON.
struct RawTool {
  std::string_view name;
  std::string_view description;
  JsonValue parameters;  // absent or null: no arguments
  std::optional<bool> strict;
};

struct RawToolChoice {
  ToolChoice mode = ToolChoice::kAuto;
  std::string_view name;                  // kNamed
  bool only_allowed = false;              // `allowed_tools`
  std::vector<std::string_view> allowed;  // then: the names it lists
};

Status ReadTools(const JsonValue& value, std::vector<RawTool>& tools);
Status ReadToolChoice(const JsonValue& value, RawToolChoice& choice);

Status CheckToolNames(const std::vector<RawTool>& tools);

// Checks schemas, then the choice, and fills the tool part of the conversation.
Status ConvertTools(const std::vector<RawTool>& tools,
                    const RawToolChoice& choice,
                    Conversation& conversation);

}  // namespace sluice::codec::chat
