#include "codec/dialect/responses/tools.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/limits.h"
#include "codec/dialect/field.h"
#include "codec/dialect/responses/apply_patch.h"
#include "codec/dialect/tool_check.h"

namespace sluice::codec::responses {
namespace {

constexpr std::string_view kApplyPatch = "apply_patch";
// A custom tool's arguments: one text.
constexpr std::string_view kFreeText =
    R"({"type":"object","properties":{"input":{"type":"string"}},"required":["input"]})";

RawTool::Kind KindOf(std::string_view type, const JsonValue& tool) {
  if (type == "function") return RawTool::Kind::kFunction;
  if (type == "custom") return RawTool::Kind::kCustom;
  if (type == "namespace") return RawTool::Kind::kNamespace;
  if (type.starts_with("web_search")) return RawTool::Kind::kWebSearch;
  JsonValue execution = tool.Find("execution");
  const bool is_client = execution.is_string() && execution.AsString() == "client";
  return type == "tool_search" && is_client ? RawTool::Kind::kSearch : RawTool::Kind::kOther;
}

Status ReadMembers(const std::string& path, const JsonValue& value, RawTool& space) {
  JsonValue members = value.Find("tools");
  if (!members.exists()) return Missing(path + ".tools", "an array");
  if (!members.is_array()) return WrongValue(path + ".tools", "an array", members);
  for (JsonValue member : members.elements()) {
    std::string member_path = fmt::format("{}.tools[{}]", path, space.members.size());
    RawTool& read = space.members.emplace_back();
    SLUICE_TRY(ReadTool(member_path, member, read));
    if (read.kind == RawTool::Kind::kNamespace)
      return WrongValue(member_path + ".type", "\"function\"", member.Find("type"));
  }
  return Status::Ok();
}

constexpr std::string_view kModes =
    "\"none\", \"auto\", \"required\" or an object that names a tool";

Status ReadAllowedTools(const JsonValue& value, RawToolChoice& choice) {
  JsonValue mode = value.Find("mode");
  if (mode.exists() && (!ReadChoiceMode(mode, choice.mode) || choice.mode == ToolChoice::kNone)) {
    return Named(WrongValue("tool_choice.mode", "\"auto\" or \"required\"", mode), "tool_choice");
  }
  JsonValue tools = value.Find("tools");
  if (!tools.is_array())
    return Named(WrongValue("tool_choice.tools", "an array", tools), "tool_choice");
  choice.only_allowed = true;
  for (JsonValue tool : tools.elements()) {
    JsonValue name = tool.Find("name");
    if (!name.is_string()) continue;  // of a tool that does not exist here
    choice.allowed.push_back(name.AsString());
  }
  return Status::Ok();
}

// {"type": "function" or "custom", "name": …}
Status ReadNamedChoice(const JsonValue& value, RawToolChoice& choice) {
  std::optional<std::string_view> name, name_space;
  SLUICE_TRY(ReadString("tool_choice.name", value.Find("name"), name));
  if (!name) return Missing("tool_choice.name", "a string");
  SLUICE_TRY(ReadString("tool_choice.namespace", value.Find("namespace"), name_space));
  choice.mode = ToolChoice::kNamed;
  choice.name = *name;
  choice.name_space = name_space.value_or("");
  return Status::Ok();
}

bool IsKept(const RawToolChoice& choice, std::string_view named, const Tool& tool) {
  if (choice.mode == ToolChoice::kNone) return false;
  if (choice.mode == ToolChoice::kNamed) return tool.name == named;
  auto is_allowed = [&](std::string_view name) {
    return name == tool.name || (!tool.name_space.empty() && name == tool.name_space);
  };
  return !choice.only_allowed || std::ranges::any_of(choice.allowed, is_allowed);
}

Status OfferCustom(const RawTool& raw, const Profile& profile, OfferedTool& offered) {
  offered.tool.kind = ToolKind::kCustom;
  if (raw.name == kApplyPatch) {
    offered.tool.description = kApplyPatchDescription;
    offered.tool.parameters = kApplyPatchParameters;
    return Status::Ok();
  }
  if (!profile.extensions) {
    return Status::Invalid(fmt::format(
        "Unsupported custom tool: '{}'. Only 'apply_patch' is supported.", Shorten(raw.name)));
  }
  if (raw.description) offered.tool.description = std::string(*raw.description);
  offered.tool.parameters = kFreeText;
  return Status::Ok();
}

Status OfferMembers(size_t index,
                    const RawTool& space,
                    ToolNames& names,
                    std::vector<OfferedTool>& offered) {
  SLUICE_TRY(CheckToolName(fmt::format("tools[{}].name", index), space.name));
  std::set<std::string_view> seen;
  for (size_t i = 0; i < space.members.size(); ++i) {
    const RawTool& member = space.members[i];
    if (member.kind == RawTool::Kind::kCustom) {
      return Status::Invalid(
          fmt::format("Currently custom tools are not allowed inside a namespace. Found custom "
                      "tool '{}' in tools[{}].tools[{}].",
                      Shorten(member.name), index, i));
    }
    if (member.kind != RawTool::Kind::kFunction) continue;
    SLUICE_TRY(CheckToolName(fmt::format("tools[{}].tools[{}].name", index, i), member.name));
    if (!seen.insert(member.name).second)
      return Status::Invalid("Tool names within a namespace must be unique.");
    offered.push_back(OfferFunction(&space, member, names.Add(space.name, member.name)));
  }
  return Status::Ok();
}

// Takes away the tools that the choice excludes, and messages that were nothing but those.
void DropExcludedTools(const RawToolChoice& choice,
                       std::string_view named,
                       std::vector<Message>& messages) {
  std::vector<Message> kept;
  kept.reserve(messages.size());
  for (Message& message : messages) {
    const bool had_tools = !message.tools.empty();
    std::erase_if(message.tools, [&](const Tool& t) { return !IsKept(choice, named, t); });
    if (had_tools && message.tools.empty() && message.text.empty()) continue;
    kept.push_back(std::move(message));
  }
  messages = std::move(kept);
}

}  // namespace

Status ReadTool(const std::string& path, const JsonValue& value, RawTool& tool) {
  if (!value.is_object()) return WrongValue(path, "an object", value);
  JsonValue type = value.Find("type");
  if (!type.is_string()) return WrongValue(path + ".type", "a string", type);
  tool.kind = KindOf(type.AsString(), value);
  if (tool.kind == RawTool::Kind::kWebSearch || tool.kind == RawTool::Kind::kOther)
    return Status::Ok();
  std::optional<std::string_view> name, description;
  std::optional<bool> strict, deferred;
  SLUICE_TRY(ReadString(path + ".name", value.Find("name"), name));
  if (!name && tool.kind != RawTool::Kind::kSearch) return Missing(path + ".name", "a string");
  SLUICE_TRY(ReadString(path + ".description", value.Find("description"), description));
  SLUICE_TRY(ReadBool(path + ".strict", value.Find("strict"), strict));
  SLUICE_TRY(ReadBool(path + ".defer_loading", value.Find("defer_loading"), deferred));
  tool.name = tool.kind == RawTool::Kind::kSearch ? kToolSearch : *name;
  tool.description = description;
  tool.strict = strict;
  tool.is_deferred = deferred.value_or(false);
  if (JsonValue parameters = value.Find("parameters"); !parameters.is_null())
    tool.parameters = parameters;
  return tool.kind == RawTool::Kind::kNamespace ? ReadMembers(path, value, tool) : Status::Ok();
}

Status ReadTools(const JsonValue& value, std::vector<RawTool>& tools) {
  if (!value.is_array()) return WrongValue("tools", "an array", value);
  int64_t n_tools = 0;
  for (JsonValue element : value.elements()) {
    std::string path = fmt::format("tools[{}]", tools.size());
    RawTool& tool = tools.emplace_back();
    SLUICE_TRY(ReadTool(path, element, tool));
    n_tools += std::max<int64_t>(1, std::ssize(tool.members));
    if (n_tools > limits::kMaxTools) {
      return Status::InvalidField(
          "tools", fmt::format("`tools` has more than {} entries, those of namespaces included",
                               limits::kMaxTools));
    }
  }
  return Status::Ok();
}

Status ReadToolChoice(const JsonValue& value, const Profile& profile, RawToolChoice& choice) {
  if (ReadChoiceMode(value, choice.mode)) return Status::Ok();
  if (!value.is_object()) return WrongValue("tool_choice", kModes, value);
  JsonValue type = value.Find("type");
  if (!type.is_string()) return WrongValue("tool_choice.type", "a string", type);
  const std::string_view name = type.AsString();
  if (name == "function" || name == "custom") return ReadNamedChoice(value, choice);
  if (name == "allowed_tools" && profile.extensions) return ReadAllowedTools(value, choice);
  choice.is_web_search = name.starts_with("web_search");
  choice.is_other = !choice.is_web_search;
  return Status::Ok();
}

std::string ToolNames::Add(std::string_view name_space, std::string_view name) {
  std::string free = Free(name_space, name);
  taken_.insert(free);
  registered_.try_emplace({name_space, name}, free);
  return free;
}

bool ToolNames::Has(std::string_view name_space, std::string_view name) const {
  return registered_.contains(std::pair(name_space, name));
}

std::string ToolNames::Of(std::string_view name_space, std::string_view name) const {
  auto found = registered_.find(std::pair(name_space, name));
  if (found != registered_.end()) return found->second;
  return name_space.empty() ? std::string(name) : Free(name_space, name);
}

std::string ToolNames::Free(std::string_view name_space, std::string_view name) const {
  std::string whole =
      name_space.empty() ? std::string(name) : fmt::format("{}::{}", name_space, name);
  std::string free = whole;
  for (int i = 1; taken_.contains(free); ++i) free = fmt::format("{}_{}", whole, i);
  return free;
}

OfferedTool OfferFunction(const RawTool* space, const RawTool& function, std::string name) {
  OfferedTool offered{.tool = {.name = std::move(name), .strict = function.strict},
                      .parameters = function.parameters};
  if (function.description) offered.tool.description = std::string(*function.description);
  offered.tool.is_deferred = function.is_deferred;
  if (space == nullptr) return offered;
  if (!space->description.value_or("").empty()) {
    offered.tool.description =
        fmt::format("{}\n{}", *space->description, function.description.value_or(""));
  }
  offered.tool.name_space = std::string(space->name);
  offered.tool.bare_name = std::string(function.name);
  return offered;
}

Status OfferTools(const std::vector<RawTool>& tools,
                  const OfferRules& rules,
                  ToolNames& names,
                  std::vector<OfferedTool>& offered) {
  std::set<std::string_view> seen;
  for (size_t i = 0; i < tools.size(); ++i) {
    const RawTool& raw = tools[i];
    if (raw.kind == RawTool::Kind::kWebSearch && !rules.profile.responses_web_search_drop)
      return Status::Invalid("Server tools are not supported");
    if (raw.kind == RawTool::Kind::kWebSearch || raw.kind == RawTool::Kind::kOther) {
      if (std::ssize(rules.ignored) < limits::kMaxIgnoredFieldsListed)
        rules.ignored.push_back(fmt::format("tools[{}]", i));
      continue;
    }
    if (raw.kind == RawTool::Kind::kNamespace) {
      SLUICE_TRY(OfferMembers(i, raw, names, offered));
      continue;
    }
    SLUICE_TRY(CheckToolName(fmt::format("tools[{}].name", i), raw.name));
    if (!seen.insert(raw.name).second) return Status::Invalid("Tool names must be unique.");
    OfferedTool tool = OfferFunction(nullptr, raw, names.Add("", raw.name));
    if (raw.kind == RawTool::Kind::kCustom) {
      tool.parameters = JsonValue();
      SLUICE_TRY(OfferCustom(raw, rules.profile, tool));
    }
    if (raw.kind == RawTool::Kind::kSearch) tool.tool.kind = ToolKind::kSearch;
    offered.push_back(std::move(tool));
  }
  // Without tool_search nobody could find a deferred tool.
  const bool has_search = seen.contains(kToolSearch);
  for (OfferedTool& tool : offered) tool.tool.is_deferred &= has_search;
  return Status::Ok();
}

Status ConvertTools(const ToolRequest& request, Conversation& conversation) {
  const auto& [offered, choice, names, profile] = request;
  conversation.tool_choice = ToolChoice::kNone;
  if (choice.is_web_search && !profile.responses_web_search_drop)
    return Status::Invalid("Server tools are not supported");
  const std::string named = choice.name_space.empty() ? std::string(choice.name)
                                                      : names.Of(choice.name_space, choice.name);
  if (choice.mode == ToolChoice::kNone) DropExcludedTools(choice, named, conversation.messages);
  if (offered.empty() || choice.mode == ToolChoice::kNone)
    return Status::Ok();  // then schemas are not looked at
  for (const OfferedTool& tool : offered) {
    SLUICE_TRY(CheckToolSchema({.tool = tool.tool.name,
                                .parameters = tool.parameters,
                                .is_strict = tool.tool.strict.value_or(false),
                                .may_lack_type = profile.extensions}));
  }
  if (ForcesCall(choice.mode) && conversation.thinking && !profile.force_call_while_thinking)
    return Status::Invalid("Thinking mode does not support this tool_choice");
  auto is_named = [&](const OfferedTool& tool) { return tool.tool.name == named; };
  if (choice.mode == ToolChoice::kNamed && std::ranges::none_of(offered, is_named))
    return UnknownToolChoice(named);

  for (const OfferedTool& tool : offered) {
    if (!IsKept(choice, named, tool.tool)) continue;
    Tool& kept = conversation.tools.emplace_back(tool.tool);
    if (kept.parameters.empty()) kept.parameters = ToolSchemaText(tool.parameters);
  }
  DropExcludedTools(choice, named, conversation.messages);
  if (conversation.tools.empty()) return Status::Ok();
  conversation.tool_choice = choice.mode;
  conversation.named_tool = named;
  return Status::Ok();
}

}  // namespace sluice::codec::responses
