#include "codec/dialect/chat/body.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "codec/dialect/field.h"
#include "codec/dialect/field_table.h"
#include "codec/dialect/request_check.h"
#include "codec/dialect/sampling.h"

namespace sluice::codec::chat {
namespace {

Status ReadThinking(const JsonValue& value, Body& body) {
  if (!value.is_object()) return WrongValue("thinking", "an object with `type`", value);
  constexpr std::string_view kTypes = "one of enabled, adaptive, disabled";
  JsonValue type = value.Find("type");
  if (!type.exists()) return Missing("thinking.type", kTypes);
  std::string_view name = type.is_string() ? type.AsString() : std::string_view();
  if (name != "enabled" && name != "adaptive" && name != "disabled")
    return WrongValue("thinking.type", kTypes, type);
  body.thinking = name != "disabled";
  return Status::Ok();
}

// A template is a program that a request would run in the server (spec users.md §5, row S9).
Status RefuseTemplate(const JsonValue&, Body&) {
  return Status::InvalidField(
      "chat_template",
      "`chat_template` is not accepted: the model has one prompt format, leave it out");
}

// Aliases of vLLM's and SGLang's clients. Other keyword arguments address a template that does not
// exist here: they are unknown fields.
constexpr std::string_view kTemplateArguments[] = {"enable_thinking", "reasoning_effort",
                                                   "thinking"};

Status ReadTemplateArguments(const JsonValue& value, Body& body) {
  constexpr std::string_view kName = "chat_template_kwargs";
  if (!value.is_object()) return Named(WrongValue(kName, "an object", value), kName);
  for (std::string_view key : {"enable_thinking", "thinking"}) {  // the last one there counts
    SLUICE_TRY(
        Named(ReadBool(fmt::format("{}.{}", kName, key), value.Find(key), body.template_thinking),
              kName));
  }
  JsonValue effort = value.Find("reasoning_effort");
  if (!effort.exists() || effort.is_null()) return Status::Ok();
  return Named(ReadEffort("chat_template_kwargs.reasoning_effort", effort, /*numbers=*/true,
                          body.template_effort),
               kName);
}

Status ReadJsonSchemaFormat(const JsonValue& value, Body& body) {
  JsonValue holder = value.Find("json_schema");
  if (!holder.exists()) return Missing("response_format.json_schema", "an object");
  if (!holder.is_object()) return WrongValue("response_format.json_schema", "an object", holder);
  std::optional<std::string_view> name;
  std::optional<bool> strict;
  SLUICE_TRY(ReadString("response_format.json_schema.name", holder.Find("name"), name));
  SLUICE_TRY(ReadBool("response_format.json_schema.strict", holder.Find("strict"), strict));
  body.response_strict = strict.value_or(false);
  if (JsonValue schema = holder.Find("schema"); !schema.is_null()) body.response_schema = schema;
  return Status::Ok();
}

Status ReadResponseFormat(const JsonValue& value, Body& body) {
  if (!value.is_object()) return WrongValue("response_format", "an object with `type`", value);
  constexpr std::string_view kTypes = "one of text, json_object, json_schema, regex";
  JsonValue type = value.Find("type");
  if (!type.exists()) return Missing("response_format.type", kTypes);
  std::string_view name = type.is_string() ? type.AsString() : std::string_view();
  if (name == "text") {
    body.response_format = ResponseFormat::kText;
  } else if (name == "json_object") {
    body.response_format = ResponseFormat::kJsonObject;
  } else if (name == "json_schema") {
    body.response_format = ResponseFormat::kJsonSchema;
    return ReadJsonSchemaFormat(value, body);
  } else if (name == "regex") {
    body.response_format = ResponseFormat::kRegex;
    std::optional<std::string_view> pattern;
    SLUICE_TRY(ReadString("response_format.pattern", value.Find("pattern"), pattern));
    if (!pattern) return Missing("response_format.pattern", "a string");
    body.response_pattern = *pattern;
  } else {
    return WrongValue("response_format.type", kTypes, type);
  }
  return Status::Ok();
}

Status KeepMinP(const JsonValue& value, Body& body) {
  body.sampler.min_p = value;
  return Status::Ok();
}
Status KeepMinTokens(const JsonValue& value, Body& body) {
  body.sampler.min_tokens = value;
  return Status::Ok();
}
Status KeepPromptLogprobs(const JsonValue& value, Body& body) {
  body.sampler.prompt_logprobs = value;
  return Status::Ok();
}
Status KeepRepetitionPenalty(const JsonValue& value, Body& body) {
  body.sampler.repetition_penalty = value;
  return Status::Ok();
}
Status KeepStopTokenIds(const JsonValue& value, Body& body) {
  body.sampler.stop_token_ids = value;
  return Status::Ok();
}

// Sorted by name.
constexpr Field<Body> kFields[] = {
    {"chat_template", RefuseTemplate},
    {"chat_template_kwargs", ReadTemplateArguments},
    {"frequency_penalty",
     [](const JsonValue& v, Body& b) {
       return ReadNumber("frequency_penalty", v, b.frequency_penalty);
     }},
    {"logit_bias",
     [](const JsonValue& v, Body& b) {
       b.logit_bias = v;
       return v.is_object() ? Status::Ok()
                            : Named(WrongValue("logit_bias", "an object", v), "logit_bias");
     }},
    {"logprobs", [](const JsonValue& v, Body& b) { return ReadBool("logprobs", v, b.logprobs); }},
    {"max_completion_tokens",
     [](const JsonValue& v, Body& b) {
       return Named(ReadUint("max_completion_tokens", v, b.max_completion_tokens),
                    "max_completion_tokens");
     }},
    {"max_tokens",
     [](const JsonValue& v, Body& b) { return ReadUint("max_tokens", v, b.max_tokens); }},
    {"messages", [](const JsonValue& v, Body& b) { return ReadMessages(v, b.messages.emplace()); }},
    {"metadata", nullptr},
    {"min_p", KeepMinP},
    {"min_tokens", KeepMinTokens},
    {"modalities", nullptr},
    {"model", [](const JsonValue& v, Body& b) { return ReadString("model", v, b.model); }},
    {"n", [](const JsonValue& v, Body& b) { return ReadUint("n", v, b.n); }},
    {"parallel_tool_calls",
     [](const JsonValue& v, Body& b) {
       return ReadBool("parallel_tool_calls", v, b.parallel_tool_calls);
     }},
    {"prediction", nullptr},
    {"presence_penalty",
     [](const JsonValue& v, Body& b) {
       return ReadNumber("presence_penalty", v, b.presence_penalty);
     }},
    {"prompt_cache_key", nullptr},
    {"prompt_cache_retention", nullptr},
    {"prompt_logprobs", KeepPromptLogprobs},
    {"reasoning_effort",
     [](const JsonValue& v, Body& b) {
       b.effort_is_number = !v.is_string();
       return ReadEffort("reasoning_effort", v, /*numbers=*/true, b.effort);
     }},
    {"repetition_penalty", KeepRepetitionPenalty},
    {"response_format", ReadResponseFormat},
    {"return_progress",
     [](const JsonValue& v, Body& b) { return ReadBool("return_progress", v, b.return_progress); }},
    {"safety_identifier", nullptr},
    {"seed", [](const JsonValue& v, Body& b) { return ReadUint("seed", v, b.seed); }},
    {"service_tier",
     [](const JsonValue& v, Body& b) {
       b.service_tier = v;
       return Status::Ok();
     }},
    {"stop", [](const JsonValue& v, Body& b) { return ReadStopField("stop", v, b.stop); }},
    {"stop_token_ids", KeepStopTokenIds},
    {"store",
     [](const JsonValue& v, Body& b) {
       b.is_to_be_stored = v.is_bool() && v.AsBool();
       return Status::Ok();
     }},
    {"stream", [](const JsonValue& v, Body& b) { return ReadBool("stream", v, b.stream.on); }},
    {"stream_options", [](const JsonValue& v, Body& b) { return ReadStreamOptions(v, b.stream); }},
    {"temperature",
     [](const JsonValue& v, Body& b) { return ReadNumber("temperature", v, b.temperature); }},
    {"thinking", ReadThinking},
    {"tool_choice", [](const JsonValue& v, Body& b) { return ReadToolChoice(v, b.tool_choice); }},
    {"tools", [](const JsonValue& v, Body& b) { return ReadTools(v, b.tools); }},
    {"top_logprobs",
     [](const JsonValue& v, Body& b) { return ReadUint("top_logprobs", v, b.top_logprobs); }},
    {"top_p", [](const JsonValue& v, Body& b) { return ReadNumber("top_p", v, b.top_p); }},
    {"user",
     [](const JsonValue& v, Body& b) { return Named(ReadString("user", v, b.user), "user"); }},
    {"user_id", [](const JsonValue& v,
                   Body& b) { return Named(ReadString("user_id", v, b.user_id), "user_id"); }},
    {"verbosity", nullptr},
};
static_assert(std::ranges::is_sorted(kFields, {}, &Field<Body>::name));

}  // namespace

Status ReadBody(const JsonValue& root, bool strict, Body& body) {
  SLUICE_TRY(ReadFields(root, kFields, strict, body));
  for (JsonMember argument : root.Find("chat_template_kwargs").members()) {
    if (std::ranges::find(kTemplateArguments, argument.key) != std::end(kTemplateArguments))
      continue;
    SLUICE_TRY(TakeUnknownField(fmt::format("chat_template_kwargs.{}", Shorten(argument.key)),
                                strict, body.unknown_fields));
  }
  if (!body.model) return Missing("model", "a string");
  if (!body.messages) return Missing("messages", "an array");
  return Status::Ok();
}

}  // namespace sluice::codec::chat
