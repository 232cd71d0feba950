#include "codec/dialect/messages/body.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "codec/dialect/effort.h"
#include "codec/dialect/field.h"
#include "codec/dialect/field_table.h"
#include "codec/dialect/request_check.h"

namespace sluice::codec::messages {
namespace {

Status ReadThinking(const JsonValue& value, Body& body) {
  if (!value.is_object()) return WrongValue("thinking", "an object with `type`", value);
  constexpr std::string_view kTypes = "one of enabled, adaptive, disabled";
  JsonValue type = value.Find("type");
  if (!type.exists()) return Missing("thinking.type", kTypes);
  const std::string_view name = type.is_string() ? type.AsString() : std::string_view();
  if (name != "enabled" && name != "adaptive" && name != "disabled")
    return WrongValue("thinking.type", kTypes, type);
  body.thinking = name != "disabled";
  body.thinking_is_enabled = name == "enabled";
  return ReadUint("thinking.budget_tokens", value.Find("budget_tokens"), body.budget_tokens);
}

Status ReadFormat(const JsonValue& value, Body& body) {
  constexpr std::string_view kPath = "output_config.format";
  if (!value.is_object()) return WrongValue(kPath, "an object with `type` and `schema`", value);
  JsonValue type = value.Find("type");
  if (!type.exists()) return Missing("output_config.format.type", "\"json_schema\"");
  if (!type.is_string() || type.AsString() != "json_schema")
    return WrongValue("output_config.format.type", "\"json_schema\"", type);
  body.has_format = true;
  body.format_schema = value.Find("schema");
  if (!body.format_schema.exists()) return Missing("output_config.format.schema", "a JSON schema");
  return Status::Ok();
}

Status ReadOutputConfig(const JsonValue& value, Body& body) {
  if (!value.is_object()) return WrongValue("output_config", "an object", value);
  if (JsonValue effort = value.Find("effort"); effort.exists() && !effort.is_null()) {
    SLUICE_TRY(ReadEffort("output_config.effort", effort, body.extensions, body.effort));
  }
  JsonValue format = value.Find("format");
  if (!body.extensions || !format.exists() || format.is_null()) return Status::Ok();
  return ReadFormat(format, body);
}

Status ReadMetadata(const JsonValue& value, Body& body) {
  if (!value.is_object()) return WrongValue("metadata", "an object", value);
  return ReadString("metadata.user_id", value.Find("user_id"), body.user);
}

Status ReadStopSequences(const JsonValue& value, Body& body) {
  if (!value.is_array()) return WrongValue("stop_sequences", "a list of strings", value);
  return ReadStopField("stop_sequences", value, body.stop);
}

Status ReadTopK(const JsonValue& value, Body& body) {
  return body.extensions ? ReadUint("top_k", value, body.top_k) : Status::Ok();
}

Status ReadToolsField(const JsonValue& value, Body& body) {
  bool has_strict = false;
  SLUICE_TRY(ReadTools(value, body.tools, has_strict));
  if (has_strict) return TakeUnknownField("tools.strict", false, body.unknown_fields);
  return Status::Ok();
}

// Sorted by name. Those without effect are what clients send by default (spec clients.md §1, §2.1).
constexpr Field<Body> kFields[] = {
    {"anthropic_beta", nullptr},
    {"betas", nullptr},
    {"cache_control", nullptr},
    {"compaction", nullptr},
    {"container", nullptr},
    {"context_management", nullptr},
    {"diagnostics", nullptr},
    {"fallbacks", nullptr},
    {"inference_geo", nullptr},
    {"max_tokens",
     [](const JsonValue& v, Body& b) { return ReadUint("max_tokens", v, b.max_tokens); }},
    {"messages", [](const JsonValue& v,
                    Body& b) { return ReadMessages(v, b.extensions, b.messages.emplace()); }},
    {"metadata", ReadMetadata},
    {"model", [](const JsonValue& v, Body& b) { return ReadString("model", v, b.model); }},
    {"output_config", ReadOutputConfig},
    {"safeguards", nullptr},
    {"service_tier", nullptr},
    {"speed", nullptr},
    {"stop_sequences", ReadStopSequences},
    {"stream", [](const JsonValue& v, Body& b) { return ReadBool("stream", v, b.stream); }},
    {"system", [](const JsonValue& v, Body& b) { return ReadSystem(v, b.system.emplace()); }},
    {"temperature",
     [](const JsonValue& v, Body& b) { return ReadNumber("temperature", v, b.temperature); }},
    {"thinking", ReadThinking},
    {"thread", nullptr},
    {"tool_choice", [](const JsonValue& v, Body& b) { return ReadToolChoice(v, b.tool_choice); }},
    {"tools", ReadToolsField},
    {"top_k", ReadTopK},
    {"top_p", [](const JsonValue& v, Body& b) { return ReadNumber("top_p", v, b.top_p); }},
    {"user_profile_id", nullptr},
    {"workspace_id", nullptr},
};
static_assert(std::ranges::is_sorted(kFields, {}, &Field<Body>::name));

}  // namespace

Status ReadBody(const JsonValue& root, Body& body) {
  SLUICE_TRY(ReadFields(root, kFields, /*strict=*/false, body));
  if (!body.model) return Missing("model", "a string");
  if (!body.messages) return Missing("messages", "an array");
  return Status::Ok();
}

}  // namespace sluice::codec::messages
