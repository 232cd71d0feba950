#include "codec/dialect/chat/tools.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/limits.h"
#include "codec/dialect/field.h"
#include "codec/dialect/tool_check.h"

namespace sluice::codec::chat {
namespace {

Status ReadTool(const std::string& path, const JsonValue& value, RawTool& tool) {
  if (!value.is_object()) return WrongValue(path, "an object", value);
  JsonValue type = value.Find("type");
  if (type.exists() && !(type.is_string() && type.AsString() == "function")) {
    return WrongValue(path + ".type", "\"function\"", type);
  }
  JsonValue function = value.Find("function");
  if (!function.exists()) return Missing(path + ".function", "an object");
  if (!function.is_object()) return WrongValue(path + ".function", "an object", function);

  std::optional<std::string_view> name, description;
  std::optional<bool> strict;
  SLUICE_TRY(ReadString(path + ".function.name", function.Find("name"), name));
  if (!name) return Missing(path + ".function.name", "a string");
  SLUICE_TRY(ReadString(path + ".function.description", function.Find("description"), description));
  SLUICE_TRY(ReadBool(path + ".function.strict", function.Find("strict"), strict));
  tool.name = *name;
  tool.description = description;
  tool.strict = strict;
  if (JsonValue parameters = function.Find("parameters"); !parameters.is_null())
    tool.parameters = parameters;
  return Status::Ok();
}

// {"type": "function", "function": {"name": NAME}}, or flat as in the Responses API.
Status ReadFunctionName(const std::string& path, const JsonValue& value, std::string_view& name) {
  JsonValue function = value.Find("function");
  JsonValue holder = function.exists() ? function : value;
  std::optional<std::string_view> read;
  SLUICE_TRY(ReadString(path + ".function.name", holder.Find("name"), read));
  if (!read) return Missing(path + ".function.name", "a string");
  name = *read;
  return Status::Ok();
}

constexpr std::string_view kModes =
    "\"none\", \"auto\", \"required\" or an object that names a function";

Status ReadAllowedTools(const JsonValue& value, RawToolChoice& choice) {
  JsonValue nested = value.Find("allowed_tools");
  JsonValue holder = nested.exists() ? nested : value;
  const std::string path = nested.exists() ? "tool_choice.allowed_tools" : "tool_choice";
  JsonValue mode = holder.Find("mode");
  if (mode.exists() && (!ReadChoiceMode(mode, choice.mode) || choice.mode == ToolChoice::kNone)) {
    return Named(WrongValue(path + ".mode", "\"auto\" or \"required\"", mode), "tool_choice");
  }
  JsonValue tools = holder.Find("tools");
  if (!tools.exists()) return Named(Missing(path + ".tools", "an array"), "tool_choice");
  if (!tools.is_array())
    return Named(WrongValue(path + ".tools", "an array", tools), "tool_choice");
  choice.only_allowed = true;
  int32_t i = 0;
  for (JsonValue tool : tools.elements()) {
    SLUICE_TRY(Named(ReadFunctionName(fmt::format("{}.tools[{}]", path, i++), tool,
                                      choice.allowed.emplace_back()),
                     "tool_choice"));
  }
  return Status::Ok();
}

std::optional<std::string> DescriptionOf(const RawTool& tool) {
  if (!tool.description) return std::nullopt;
  return std::string(*tool.description);
}

Status CheckOffered(const std::vector<RawTool>& tools, std::string_view name) {
  if (std::ranges::find(tools, name, &RawTool::name) != tools.end()) return Status::Ok();
  return UnknownToolChoice(name);
}

bool IsKept(const RawToolChoice& choice, std::string_view name) {
  if (choice.mode == ToolChoice::kNamed) return name == choice.name;
  return !choice.only_allowed || std::ranges::find(choice.allowed, name) != choice.allowed.end();
}

}  // namespace

Status ReadTools(const JsonValue& value, std::vector<RawTool>& tools) {
  if (!value.is_array()) return WrongValue("tools", "an array", value);
  if (value.size() > limits::kMaxTools) {
    return Status::InvalidField(
        "tools", fmt::format("`tools` has {} entries, at most {} are allowed", value.size(),
                             limits::kMaxTools));
  }
  for (JsonValue element : value.elements()) {
    std::string path = fmt::format("tools[{}]", tools.size());
    SLUICE_TRY(ReadTool(path, element, tools.emplace_back()));
  }
  return Status::Ok();
}

Status ReadToolChoice(const JsonValue& value, RawToolChoice& choice) {
  if (ReadChoiceMode(value, choice.mode)) return Status::Ok();
  if (!value.is_object()) return WrongValue("tool_choice", kModes, value);
  JsonValue type = value.Find("type");
  if (!type.is_string()) return Missing("tool_choice.type", "\"function\" or \"allowed_tools\"");
  if (type.AsString() == "allowed_tools") return ReadAllowedTools(value, choice);
  if (type.AsString() != "function")
    return WrongValue("tool_choice.type", "\"function\" or \"allowed_tools\"", type);
  choice.mode = ToolChoice::kNamed;
  return ReadFunctionName("tool_choice", value, choice.name);
}

Status CheckToolNames(const std::vector<RawTool>& tools) {
  std::set<std::string_view> names;
  for (size_t i = 0; i < tools.size(); ++i) {
    SLUICE_TRY(CheckToolName(fmt::format("tools[{}].function.name", i), tools[i].name));
    if (!names.insert(tools[i].name).second) return Status::Invalid("Tool names must be unique.");
  }
  return Status::Ok();
}

Status ConvertTools(const std::vector<RawTool>& tools,
                    const RawToolChoice& choice,
                    const Profile& profile,
                    Conversation& conversation) {
  conversation.tool_choice = ToolChoice::kNone;
  if (tools.empty() || choice.mode == ToolChoice::kNone)
    return Status::Ok();  // then schemas are not looked at
  for (const RawTool& tool : tools) {
    SLUICE_TRY(CheckToolSchema({.tool = tool.name,
                                .parameters = tool.parameters,
                                .is_strict = tool.strict.value_or(false),
                                .may_lack_type = profile.extensions}));
  }
  if (choice.mode == ToolChoice::kNamed) SLUICE_TRY(CheckOffered(tools, choice.name));
  for (std::string_view name : choice.allowed) SLUICE_TRY(CheckOffered(tools, name));
  if (choice.mode != ToolChoice::kAuto && conversation.thinking &&
      !profile.force_call_while_thinking) {
    return Status::Invalid("Thinking mode does not support this tool_choice");
  }

  for (const RawTool& tool : tools) {
    if (!IsKept(choice, tool.name)) continue;
    conversation.tools.push_back({.name = std::string(tool.name),
                                  .description = DescriptionOf(tool),
                                  .parameters = ToolSchemaText(tool.parameters),
                                  .strict = tool.strict});
  }
  if (conversation.tools.empty()) return Status::Ok();
  conversation.tool_choice = choice.mode;
  conversation.named_tool = std::string(choice.name);
  return Status::Ok();
}

}  // namespace sluice::codec::chat
