// Tools and tool choice of a Responses request (spec recipe.md §7.4). Shape first, meaning later:
// the order of checks is recipe.md §6.1.

#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "codec/conversation.h"
#include "codec/profile.h"

namespace sluice::codec::responses {

inline constexpr std::string_view kToolSearch = "tool_search";

// As the client wrote it, types checked. The views live as long as the request's JSON.
struct RawTool {
  enum class Kind : uint8_t {
    kFunction,
    kCustom,
    kNamespace,
    kSearch,  // tool_search that the client runs
    kWebSearch,
    kOther,  // of a service that does not exist here
  };
  Kind kind = Kind::kOther;
  std::string_view name;
  std::optional<std::string_view> description;
  JsonValue parameters;  // absent or null: no arguments
  std::optional<bool> strict;
  bool is_deferred = false;
  std::vector<RawTool> members;  // kNamespace
};

struct RawToolChoice {
  ToolChoice mode = ToolChoice::kAuto;
  bool is_web_search = false;  // a choice of web_search, which is none
  bool is_other = false;       // of a tool of a service that does not exist here
  std::string_view name;       // kNamed
  std::string_view name_space;
  bool only_allowed = false;              // `allowed_tools`
  std::vector<std::string_view> allowed;  // then: the names it lists
};

Status ReadTools(const JsonValue& value, std::vector<RawTool>& tools);
Status ReadToolChoice(const JsonValue& value, const Profile& profile, RawToolChoice& choice);
// One tool of a list, which stands at `path`.
Status ReadTool(const std::string& path, const JsonValue& value, RawTool& tool);

// The names under which the model knows tools: `ns::name` for one in a namespace, with `_1`, `_2`
// behind it if that is taken. Keeps views of what it is given. Thread-compatible.
class ToolNames {
 public:
  // The name of a tool that is offered from here on; the first of its namespace and name is the one
  // that calls mean.
  std::string Add(std::string_view name_space, std::string_view name);
  // The name of a tool that calls mean: a registered one, or else a free one.
  std::string Of(std::string_view name_space, std::string_view name) const;
  bool Has(std::string_view name_space, std::string_view name) const;

 private:
  std::string Free(std::string_view name_space, std::string_view name) const;

  std::map<std::pair<std::string_view, std::string_view>, std::string> registered_;
  std::set<std::string, std::less<>> taken_;
};

// A tool in a form the model can read; `parameters` are not checked yet.
struct OfferedTool {
  Tool tool;
  JsonValue parameters;
};

// Checks names, and leaves out what does not exist here. `ignored`: the places of tools that were
// left out.
struct OfferRules {
  const Profile& profile;
  std::vector<std::string>& ignored;
};
Status OfferTools(const std::vector<RawTool>& tools,
                  const OfferRules& rules,
                  ToolNames& names,
                  std::vector<OfferedTool>& offered);

// The function of one member of a namespace, or of none (`space` null).
OfferedTool OfferFunction(const RawTool* space, const RawTool& function, std::string name);

// Checks schemas, then the choice, fills the tool part of the conversation and takes away from its
// messages the tools that the choice excludes.
struct ToolRequest {
  const std::vector<OfferedTool>& offered;
  const RawToolChoice& choice;
  const ToolNames& names;
  const Profile& profile;
};
Status ConvertTools(const ToolRequest& request, Conversation& conversation);

}  // namespace sluice::codec::responses
