#include "codec/constraint.h"

#include "base/check.h"
#include "base/json.h"
#include "base/json_writer.h"
#include "codec/strict_schema.h"

namespace sluice::codec {
namespace {

std::string Normalized(const std::string& schema) {
  const Result<Json> json = Json::Parse(schema);
  SLUICE_CHECK(json);  // the dialect has read it
  return NormalizeStrictSchema(json->root());
}

std::string ToolList(const std::vector<Tool>& tools) {
  std::string text;
  JsonWriter w(text);
  w.Array();
  for (const Tool& tool : tools) {
    w.Object().Key("type").String("function").Key("function").Object();
    w.Key("name").String(tool.name).Key("description");
    tool.description ? w.String(*tool.description) : w.Null();
    w.Key("parameters").Raw(tool.parameters.empty() ? "{}" : tool.parameters).Key("strict");
    tool.strict ? w.Bool(*tool.strict) : w.Null();
    w.EndObject().EndObject();
  }
  w.EndArray();
  return text;
}

}  // namespace

const char* NameOf(Constraint::Kind kind) {
  switch (kind) {
    case Constraint::Kind::kNone:
      return "none";
    case Constraint::Kind::kToolCall:
      return "tool_call";
    case Constraint::Kind::kToolCallRequired:
      return "tool_call_required";
    case Constraint::Kind::kJson:
      return "json";
    case Constraint::Kind::kRegex:
      return "regex";
  }
  return "none";
}

Constraint ConstraintOf(const Conversation& conversation) {
  Constraint constraint;
  if (!conversation.tools.empty()) {
    constraint.kind = ForcesCall(conversation.tool_choice) ? Constraint::Kind::kToolCallRequired
                                                           : Constraint::Kind::kToolCall;
    constraint.schema = ToolList(conversation.tools);
    constraint.max_calls = conversation.parallel_tool_calls ? 0 : 1;
    return constraint;
  }
  switch (conversation.response_format) {
    case ResponseFormat::kText:
      break;
    case ResponseFormat::kJsonObject:
      constraint.kind = Constraint::Kind::kJson;
      break;
    case ResponseFormat::kJsonSchema:
      constraint.kind = Constraint::Kind::kJson;
      constraint.schema = conversation.response_is_strict ? Normalized(conversation.response_schema)
                                                          : conversation.response_schema;
      break;
    case ResponseFormat::kRegex:
      constraint.kind = Constraint::Kind::kRegex;
      constraint.schema = conversation.response_schema;
      break;
  }
  return constraint;
}

void NormalizeStrictTools(Conversation& conversation) {
  for (Tool& tool : conversation.tools) {
    if (!tool.strict.value_or(false)) continue;
    tool.parameters = tool.parameters.empty() ? EmptyStrictSchema() : Normalized(tool.parameters);
  }
}

}  // namespace sluice::codec
