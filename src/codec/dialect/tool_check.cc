#include "codec/dialect/tool_check.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/limits.h"
#include "codec/dialect/field.h"
#include "codec/dialect/schema_check.h"

namespace sluice::codec {

Status CheckToolName(std::string_view path, std::string_view name) {
  if (name.empty()) {
    return Status::Invalid(fmt::format(
        "Invalid '{}': empty string. Expected a string with minimum length 1, but got an empty "
        "string instead.",
        path));
  }
  if (name.size() > limits::kMaxToolNameBytes) {
    return Status::Invalid(fmt::format(
        "Invalid '{}': string too long. Expected a string with maximum length {}, but got a string "
        "with length {} instead.",
        path, limits::kMaxToolNameBytes, name.size()));
  }
  constexpr std::string_view kAllowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
  if (name.find_first_not_of(kAllowed) == std::string_view::npos) return Status::Ok();
  return Status::Invalid(
      fmt::format("Invalid '{}': string does not match pattern. Expected a string that matches the "
                  "pattern '^[a-zA-Z0-9_-]+$'.",
                  path));
}

Status CheckToolSchema(const ToolSchema& schema) {
  const JsonValue& parameters = schema.parameters;
  if (!parameters.exists()) return Status::Ok();
  Status status = CheckJsonSchema(parameters);
  if (!status.ok()) {
    return status.AddContext(fmt::format("Invalid schema for function '{}'", schema.tool));
  }
  if (schema.is_strict) {
    constexpr StrictParams kParams{.what = "function parameters schema", .top_may_be_empty = true};
    SLUICE_TRY(CheckStrictSchema(parameters, kParams));
  }
  JsonValue type = parameters.Find("type");
  const bool is_object =
      type.exists() ? type.is_string() && type.AsString() == "object" : schema.may_lack_type;
  if (parameters.is_object() && is_object) return Status::Ok();
  return Status::Invalid(fmt::format(
      "Invalid schema for function '{}': schema must be a JSON Schema of 'type: \"object\"', got "
      "{}.",
      schema.tool, parameters.is_object() ? "type " + Describe(type) : Describe(parameters)));
}

std::string ToolSchemaText(const JsonValue& parameters) {
  if (!parameters.exists()) return "";
  std::string text = parameters.ToText();
  if (parameters.Find("type")) return text;
  if (parameters.size() == 0) return R"({"type":"object","properties":{}})";
  return R"({"type":"object",)" + text.substr(1);
}

bool ReadChoiceMode(const JsonValue& value, ToolChoice& mode) {
  if (!value.is_string()) return false;
  if (value.AsString() == "none") return mode = ToolChoice::kNone, true;
  if (value.AsString() == "auto") return mode = ToolChoice::kAuto, true;
  if (value.AsString() == "required") return mode = ToolChoice::kRequired, true;
  return false;
}

void ListUnmetChoice(ToolChoice asked, DecodedRequest& request) {
  if (ForcesCall(asked) && request.conversation.tools.empty()) {
    request.ignored_fields.push_back("tool_choice");
  }
}

Status UnknownToolChoice(std::string_view name) {
  return Status::Invalid(fmt::format(
      "Invalid value for 'tool_call': no function named '{}' was specified in the 'tools' "
      "parameter.",
      Shorten(name)));
}

Status CheckStrictMix(const std::vector<Tool>& tools, bool has_response_format) {
  auto n_strict =
      std::ranges::count_if(tools, [](const Tool& tool) { return tool.strict.value_or(false); });
  if (n_strict == 0) return Status::Ok();
  if (n_strict != std::ssize(tools)) {
    return Status::Invalid("Cannot use strict tool with non-strict tool in the same request");
  }
  return has_response_format ? Status::Invalid("response_format should not be used with tools")
                             : Status::Ok();
}

}  // namespace sluice::codec
