#include "codec/dialect/responses/body.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "codec/dialect/field.h"
#include "codec/dialect/field_table.h"
#include "codec/dialect/request_check.h"
#include "codec/dialect/responses/items.h"

namespace sluice::codec::responses {
namespace {

Status ReadReasoning(const JsonValue& value, const Profile& profile, Body& body) {
  if (!value.is_object()) return WrongValue("reasoning", "an object", value);
  JsonValue effort = value.Find("effort");
  if (effort.exists() && !effort.is_null()) {
    SLUICE_TRY(ReadEffort("reasoning.effort", effort, profile.extensions, body.effort));
    body.effort_asked = effort;
  }
  // `generate_summary` is the field's older name.
  SLUICE_TRY(
      ReadString("reasoning.generate_summary", value.Find("generate_summary"), body.summary));
  return ReadString("reasoning.summary", value.Find("summary"), body.summary);
}

Status ReadSchemaFormat(const JsonValue& format, Body& body) {
  std::optional<std::string_view> name, description;
  std::optional<bool> strict;
  SLUICE_TRY(ReadString("text.format.name", format.Find("name"), name));
  if (!name) return Missing("text.format.name", "a string");
  SLUICE_TRY(ReadString("text.format.description", format.Find("description"), description));
  SLUICE_TRY(ReadBool("text.format.strict", format.Find("strict"), strict));
  body.response_strict = strict.value_or(false);
  if (JsonValue schema = format.Find("schema"); !schema.is_null()) body.response_schema = schema;
  return Status::Ok();
}

Status ReadText(const JsonValue& value, const Profile&, Body& body) {
  if (!value.is_object()) return WrongValue("text", "an object", value);
  SLUICE_TRY(ReadString("text.verbosity", value.Find("verbosity"), body.verbosity));
  JsonValue format = value.Find("format");
  if (!format.exists() || format.is_null()) return Status::Ok();
  if (!format.is_object()) return WrongValue("text.format", "an object with `type`", format);
  constexpr std::string_view kTypes = "one of text, json_object, json_schema";
  JsonValue type = format.Find("type");
  if (!type.exists()) return Missing("text.format.type", kTypes);
  std::string_view name = type.is_string() ? type.AsString() : std::string_view();
  body.format_asked = format;
  if (name == "json_object") {
    body.format = ResponseFormat::kJsonObject;
  } else if (name == "json_schema") {
    body.format = ResponseFormat::kJsonSchema;
    return ReadSchemaFormat(format, body);
  } else if (name != "text") {
    return WrongValue("text.format.type", kTypes, type);
  }
  return Status::Ok();
}

Status ReadConversation(const JsonValue&, const Profile&, Body& body) {
  body.has_conversation = true;
  return Status::Ok();
}

Status ReadInput(const JsonValue& value, const Profile& profile, Body& body) {
  body.input = value;
  return CheckInputShape(value, profile);
}

Status ReadChoice(const JsonValue& value, const Profile& profile, Body& body) {
  body.tool_choice_asked = value;
  return ReadToolChoice(value, profile, body.tool_choice);
}

Status ReadOffer(const JsonValue& value, const Profile&, Body& body) {
  body.tools_asked = value;
  return ReadTools(value, body.tools);
}

Status KeepServiceTier(const JsonValue& value, const Profile&, Body& body) {
  body.service_tier = value;
  return Status::Ok();
}

// A documented field: where a simple value goes, or how another is read. Nothing at all: accepted,
// no effect here. The reference knows only some of the fields; it ignores the others whatever they
// hold.
struct FieldEntry {
  std::string_view name;
  bool is_ours = false;
  std::optional<bool> Body::* flag = nullptr;
  std::optional<double> Body::* number = nullptr;
  std::optional<uint64_t> Body::* count = nullptr;
  std::optional<std::string_view> Body::* text = nullptr;
  Status (*read)(const JsonValue& value, const Profile& profile, Body& body) = nullptr;
};

// Sorted by name.
constexpr FieldEntry kFields[] = {
    {.name = "background", .is_ours = true, .flag = &Body::background},
    {.name = "client_metadata", .is_ours = true},
    {.name = "conversation", .is_ours = true, .read = ReadConversation},
    {.name = "include", .is_ours = true},
    {.name = "input", .read = ReadInput},
    {.name = "instructions", .text = &Body::instructions},
    {.name = "max_output_tokens", .count = &Body::max_output_tokens},
    {.name = "metadata", .is_ours = true},
    {.name = "model", .text = &Body::model},
    {.name = "parallel_tool_calls", .is_ours = true, .flag = &Body::parallel_tool_calls},
    {.name = "previous_response_id", .is_ours = true, .text = &Body::previous_response_id},
    {.name = "prompt_cache_key", .is_ours = true, .text = &Body::prompt_cache_key},
    {.name = "prompt_cache_retention", .is_ours = true},
    {.name = "reasoning", .read = ReadReasoning},
    {.name = "safety_identifier", .is_ours = true},
    {.name = "service_tier", .is_ours = true, .read = KeepServiceTier},
    {.name = "store", .is_ours = true, .flag = &Body::store},
    {.name = "stream", .flag = &Body::stream},
    {.name = "stream_options", .is_ours = true},
    {.name = "temperature", .number = &Body::temperature},
    {.name = "text", .read = ReadText},
    {.name = "tool_choice", .read = ReadChoice},
    {.name = "tools", .read = ReadOffer},
    {.name = "top_logprobs", .count = &Body::top_logprobs},
    {.name = "top_p", .number = &Body::top_p},
    {.name = "truncation", .is_ours = true},
    {.name = "user", .text = &Body::user},
};
static_assert(std::ranges::is_sorted(kFields, {}, &FieldEntry::name));

// `value` is not null: null is the same as absent.
Status ReadField(const FieldEntry& field,
                 const JsonValue& value,
                 const Profile& profile,
                 Body& body) {
  if (field.flag != nullptr) return ReadBool(field.name, value, body.*field.flag);
  if (field.number != nullptr) return ReadNumber(field.name, value, body.*field.number);
  if (field.count != nullptr) return ReadUint(field.name, value, body.*field.count);
  if (field.text != nullptr) return ReadString(field.name, value, body.*field.text);
  return field.read == nullptr ? Status::Ok() : field.read(value, profile, body);
}

}  // namespace

Status ReadBody(const JsonValue& root, const BodyRules& rules, Body& body) {
  SLUICE_TRY(ReadTable(root, kFields, rules.strict, body.unknown_fields,
                       [&](const FieldEntry& field, const JsonValue& value) {
                         if (field.is_ours && !rules.profile.extensions) return Status::Ok();
                         Status status = ReadField(field, value, rules.profile, body);
                         if (status.ok() || !field.is_ours) return status;
                         return Named(std::move(status), field.name);
                       }));
  if (!body.model) return Missing("model", "a string");
  return Status::Ok();
}

}  // namespace sluice::codec::responses
