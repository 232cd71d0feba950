// Tools and tool choice of a Messages request (spec recipe.md §7.1, §7.3). Shape first, meaning
// later: the order of checks is recipe.md §6.1. Pure functions.

#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "codec/conversation.h"
#include "codec/profile.h"

namespace sluice::codec::messages {

// As the client wrote it, types checked. The views live as long as the request's JSON.
struct RawTool {
  std::string_view name;
  std::optional<std::string_view> description;
  std::string_view type;  // empty: a client tool
  JsonValue schema;       // absent or null: an error, unless no tool is offered
  bool is_deferred = false;
};

struct RawToolChoice {
  ToolChoice mode = ToolChoice::kAuto;
  std::string_view name;  // kNamed
  bool disable_parallel = false;
};

// `has_strict`: some tool asks for strict mode, which this API does not have.
Status ReadTools(const JsonValue& value, std::vector<RawTool>& tools, bool& has_strict);
Status ReadToolChoice(const JsonValue& value, RawToolChoice& choice);

// The tools of the client, without server tools.
struct ClientTools {
  std::vector<RawTool> tools;
  std::vector<std::string_view> dropped;  // names of server tools that are ignored
};
// Checks kinds, names and deferral.
Status SelectTools(const std::vector<RawTool>& raw, const Profile& profile, ClientTools& selected);

// Checks schemas, then the choice, and fills the tool part of the conversation. Messages that name
// tools to show (Message::tools, so far names only) get the tools, without those not offered.
Status ConvertTools(const ClientTools& client,
                    const RawToolChoice& choice,
                    const Profile& profile,
                    Conversation& conversation);

}  // namespace sluice::codec::messages
