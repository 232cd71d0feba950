#include "codec/dialect/responses/echo.h"

#include "base/json_writer.h"
#include "codec/dialect/service_tier.h"

namespace sluice::codec::responses {
namespace {

void WriteText(const std::optional<std::string_view>& text, JsonWriter& w) {
  text ? w.String(*text) : w.Null();
}

void WriteUint(const std::optional<uint64_t>& value, JsonWriter& w) {
  value ? w.Uint(*value) : w.Null();
}

// The member `key` as the client sent it; absent is null.
void WriteMember(std::string_view key, const JsonValue& object, JsonWriter& w) {
  JsonValue value = object.Find(key);
  w.Key(key);
  value.exists() ? w.Raw(value.ToText()) : w.Null();
}

void WriteReasoning(const Body& body, JsonWriter& w) {
  w.Key("reasoning").Object().Key("effort");
  body.effort_asked.exists() ? w.Raw(body.effort_asked.ToText()) : w.Null();
  w.Key("summary");
  WriteText(body.summary, w);
  w.EndObject();
}

void WriteFormat(const Body& body, JsonWriter& w) {
  w.Key("text").Object().Key("format").Object();
  switch (body.format) {
    case ResponseFormat::kJsonObject:
      w.Key("type").String("json_object");
      break;
    case ResponseFormat::kJsonSchema:
      w.Key("type").String("json_schema");
      for (std::string_view key : {"name", "schema", "description", "strict"})
        WriteMember(key, body.format_asked, w);
      break;
    case ResponseFormat::kText:
    case ResponseFormat::kRegex:
      w.Key("type").String("text");
      break;
  }
  w.EndObject().Key("verbosity");
  WriteText(body.verbosity, w);
  w.EndObject();
}

void WriteFunction(const JsonValue& tool, JsonWriter& w) {
  w.Object().Key("type").String("function");
  for (std::string_view key : {"name", "description", "parameters", "strict"})
    WriteMember(key, tool, w);
  w.EndObject();
}

void WriteWebSearch(const JsonValue& tool, JsonWriter& w) {
  w.Object();
  WriteMember("type", tool, w);
  WriteMember("search_context_size", tool, w);
  JsonValue location = tool.Find("user_location");
  w.Key("user_location");
  if (location.is_object()) {
    w.Object();
    for (std::string_view key : {"city", "country", "region", "timezone"})
      WriteMember(key, location, w);
    w.EndObject();
  } else {
    w.Null();
  }
  w.EndObject();
}

void WriteNamespace(const JsonValue& space, const RawTool& raw, JsonWriter& w) {
  w.Object();
  for (std::string_view key : {"type", "name", "description"}) WriteMember(key, space, w);
  w.Key("tools").Array();
  size_t i = 0;
  for (JsonValue member : space.Find("tools").elements()) {
    if (raw.members[i++].kind == RawTool::Kind::kFunction) WriteFunction(member, w);
  }
  w.EndArray().EndObject();
}

// A tool with the members it came with, of those that are known.
void WriteKnown(const JsonValue& tool,
                std::initializer_list<std::string_view> keys,
                JsonWriter& w) {
  w.Object();
  for (std::string_view key : keys) {
    if (tool.Find(key).exists()) WriteMember(key, tool, w);
  }
  w.EndObject();
}

// Tools that do not exist here are left out.
void WriteTools(const Body& body, JsonWriter& w) {
  w.Key("tools").Array();
  size_t i = 0;
  for (JsonValue tool : body.tools_asked.elements()) {
    const RawTool& raw = body.tools[i++];
    switch (raw.kind) {
      case RawTool::Kind::kFunction:
        WriteFunction(tool, w);
        break;
      case RawTool::Kind::kCustom:
        WriteKnown(tool, {"type", "name", "description", "format"}, w);
        break;
      case RawTool::Kind::kNamespace:
        WriteNamespace(tool, raw, w);
        break;
      case RawTool::Kind::kSearch:
        WriteKnown(tool, {"type", "execution", "description", "parameters"}, w);
        break;
      case RawTool::Kind::kWebSearch:
        WriteWebSearch(tool, w);
        break;
      case RawTool::Kind::kOther:
        break;
    }
  }
  w.EndArray();
}

}  // namespace

std::string EchoOf(const Body& body, const EchoParams& params) {
  std::string text;
  JsonWriter w(text);
  w.Object();
  w.Key("frequency_penalty").Double(0);
  w.Key("instructions");
  WriteText(body.instructions, w);
  w.Key("max_output_tokens");
  WriteUint(body.max_output_tokens, w);
  w.Key("max_tool_calls").Null();
  w.Key("metadata").Object().EndObject();
  w.Key("model").String(*body.model);
  w.Key("moderation").Null();
  w.Key("parallel_tool_calls").Bool(body.parallel_tool_calls.value_or(true));
  w.Key("presence_penalty").Double(0);
  w.Key("previous_response_id");
  params.previous.empty() ? w.Null() : w.String(params.previous);
  w.Key("prompt_cache_key").Null();
  w.Key("prompt_cache_retention").Null();
  WriteReasoning(body, w);
  w.Key("safety_identifier").Null();
  w.Key("service_tier").String(TierName(params.request_class));
  w.Key("temperature").Double(body.temperature.value_or(params.unasked.temperature));
  WriteFormat(body, w);
  w.Key("tool_choice");
  body.tool_choice_asked.exists() ? w.Raw(body.tool_choice_asked.ToText()) : w.String("auto");
  WriteTools(body, w);
  w.Key("top_logprobs").Uint(body.top_logprobs.value_or(0));
  w.Key("top_p").Double(body.top_p.value_or(params.unasked.top_p));
  w.Key("truncation").String("disabled");
  w.Key("user");
  WriteText(body.user, w);
  w.EndObject();
  return text.substr(1, text.size() - 2);
}

}  // namespace sluice::codec::responses
