#include "codec/dialect/messages/tools.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/limits.h"
#include "codec/dialect/field.h"
#include "codec/dialect/tool_check.h"

namespace sluice::codec::messages {
namespace {

Status ReadTool(const std::string& path, const JsonValue& value, RawTool& tool) {
  if (!value.is_object()) return WrongValue(path, "an object", value);
  std::optional<std::string_view> name, description, type;
  std::optional<bool> is_deferred;
  SLUICE_TRY(ReadString(path + ".name", value.Find("name"), name));
  if (!name) return Missing(path + ".name", "a string");
  SLUICE_TRY(ReadString(path + ".description", value.Find("description"), description));
  SLUICE_TRY(ReadString(path + ".type", value.Find("type"), type));
  SLUICE_TRY(ReadBool(path + ".defer_loading", value.Find("defer_loading"), is_deferred));
  tool = {.name = *name,
          .description = description,
          .type = type.value_or(""),
          .schema = value.Find("input_schema"),
          .is_deferred = is_deferred.value_or(false)};
  return Status::Ok();
}

std::optional<std::string> DescriptionOf(const RawTool& tool) {
  if (!tool.description) return std::nullopt;
  return std::string(*tool.description);
}

bool IsServerTool(const RawTool& tool, const Profile& profile) {
  if (tool.type.empty()) return false;
  return !(profile.extensions && tool.type == "custom");
}

Status CheckSchema(const RawTool& tool, const Profile& profile) {
  if (!tool.schema.exists() || tool.schema.is_null()) {
    return Status::Invalid(fmt::format(
        "Invalid schema for function '{}': `input_schema` must be a JSON schema, not null",
        tool.name));
  }
  return CheckToolSchema({.tool = tool.name,
                          .parameters = tool.schema,
                          .is_strict = false,
                          .may_lack_type = profile.extensions});
}

Status DecideChoice(const ClientTools& client,
                    const RawToolChoice& choice,
                    const Profile& profile,
                    Conversation& conversation) {
  conversation.tool_choice = choice.mode;
  if (choice.mode == ToolChoice::kRequired && !profile.messages_any_required)
    conversation.tool_choice = ToolChoice::kAuto;
  if (choice.mode == ToolChoice::kNamed) {
    if (std::ranges::find(client.dropped, choice.name) != client.dropped.end()) {
      conversation.tool_choice = ToolChoice::kAuto;
    } else if (std::ranges::find(client.tools, choice.name, &RawTool::name) == client.tools.end()) {
      return UnknownToolChoice(choice.name);
    } else {
      conversation.named_tool = std::string(choice.name);
    }
  }
  if (ForcesCall(conversation.tool_choice) && conversation.thinking &&
      !profile.force_call_while_thinking)
    return Status::Invalid("Thinking mode does not support this tool_choice");
  return Status::Ok();
}

const Tool* FindOffered(const Conversation& conversation, std::string_view name) {
  auto tool = std::ranges::find(conversation.tools, name, &Tool::name);
  return tool == conversation.tools.end() ? nullptr : &*tool;
}

// Gives messages that name tools the tools. Each may be named many times, so they are bounded
// together. A message that only showed tools which are not offered says nothing: without it the
// messages around it join.
Status FillShownTools(Conversation& conversation) {
  std::erase_if(conversation.messages, [&](const Message& message) {
    return !message.tools.empty() && message.text.empty() && message.images.empty() &&
           std::ranges::none_of(message.tools, [&](const Tool& named) {
             return FindOffered(conversation, named.name) != nullptr;
           });
  });
  int64_t n_bytes = 0;
  for (Message& message : conversation.messages) {
    std::vector<Tool> shown;
    for (const Tool& named : message.tools) {
      const Tool* tool = FindOffered(conversation, named.name);
      if (tool == nullptr) continue;
      n_bytes += std::ssize(tool->description.value_or("")) + std::ssize(tool->parameters);
      if (n_bytes > limits::kMaxShownToolBytes) {
        return Status::Invalid(
            fmt::format("messages: references to tools show more than {} bytes of schemas",
                        limits::kMaxShownToolBytes));
      }
      shown.push_back(*tool);
    }
    message.tools = std::move(shown);
  }
  return Status::Ok();
}

}  // namespace

Status ReadTools(const JsonValue& value, std::vector<RawTool>& tools, bool& has_strict) {
  if (!value.is_array()) return WrongValue("tools", "an array", value);
  if (value.size() > limits::kMaxTools) {
    return Status::Invalid(fmt::format("`tools` has {} entries, at most {} are allowed",
                                       value.size(), limits::kMaxTools));
  }
  for (JsonValue element : value.elements()) {
    const std::string path = fmt::format("tools[{}]", tools.size());
    SLUICE_TRY(ReadTool(path, element, tools.emplace_back()));
    if (JsonValue strict = element.Find("strict"); strict.is_bool() && strict.AsBool())
      has_strict = true;
  }
  return Status::Ok();
}

Status ReadToolChoice(const JsonValue& value, RawToolChoice& choice) {
  if (!value.is_object()) return WrongValue("tool_choice", "an object with `type`", value);
  constexpr std::string_view kTypes = "one of auto, any, tool, none";
  JsonValue type = value.Find("type");
  if (!type.exists()) return Missing("tool_choice.type", kTypes);
  const std::string_view name = type.is_string() ? type.AsString() : std::string_view();
  if (name == "none") {
    choice.mode = ToolChoice::kNone;
    return Status::Ok();
  }
  if (name == "any") {
    choice.mode = ToolChoice::kRequired;
  } else if (name == "tool") {
    choice.mode = ToolChoice::kNamed;
    std::optional<std::string_view> tool;
    SLUICE_TRY(ReadString("tool_choice.name", value.Find("name"), tool));
    if (!tool) return Missing("tool_choice.name", "a string");
    choice.name = *tool;
  } else if (name != "auto") {
    return WrongValue("tool_choice.type", kTypes, type);
  }
  std::optional<bool> disable_parallel;
  SLUICE_TRY(ReadBool("tool_choice.disable_parallel_tool_use",
                      value.Find("disable_parallel_tool_use"), disable_parallel));
  choice.disable_parallel = disable_parallel.value_or(false);
  return Status::Ok();
}

Status SelectTools(const std::vector<RawTool>& raw, const Profile& profile, ClientTools& selected) {
  for (size_t i = 0; i < raw.size(); ++i) {
    const RawTool& tool = raw[i];
    if (IsServerTool(tool, profile)) {
      if (!profile.messages_web_search_drop || !tool.type.starts_with("web_search"))
        return Status::Invalid(fmt::format("tools[{}]: server tools are not supported", i));
      selected.dropped.push_back(tool.name);
      continue;
    }
    SLUICE_TRY(CheckToolName(fmt::format("tools[{}].name", i), tool.name));
    selected.tools.push_back(tool);
  }
  if (!selected.tools.empty() && std::ranges::all_of(selected.tools, &RawTool::is_deferred)) {
    return Status::Invalid(
        "tools: at least one tool must have defer_loading=false. All tools cannot be deferred.");
  }
  std::set<std::string_view> names;
  for (const RawTool& tool : selected.tools) {
    if (!names.insert(tool.name).second) return Status::Invalid("Tool names must be unique.");
  }
  return Status::Ok();
}

Status ConvertTools(const ClientTools& client,
                    const RawToolChoice& choice,
                    const Profile& profile,
                    Conversation& conversation) {
  conversation.tool_choice = ToolChoice::kNone;
  if (!client.tools.empty() && choice.mode != ToolChoice::kNone) {
    for (const RawTool& tool : client.tools) SLUICE_TRY(CheckSchema(tool, profile));
    SLUICE_TRY(DecideChoice(client, choice, profile, conversation));
    conversation.parallel_tool_calls = !(choice.disable_parallel && profile.extensions);
    for (const RawTool& tool : client.tools) {
      if (conversation.tool_choice == ToolChoice::kNamed && tool.name != choice.name) continue;
      conversation.tools.push_back({.name = std::string(tool.name),
                                    .description = DescriptionOf(tool),
                                    .parameters = ToolSchemaText(tool.schema),
                                    .is_deferred = tool.is_deferred});
    }
  }
  return FillShownTools(conversation);
}

}  // namespace sluice::codec::messages
