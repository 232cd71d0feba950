// Body: the fields of a Responses request, types checked and nothing else. Field by field what
// dialect/responses/schema.md says. Plain data; its views live as long as the request's JSON.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "codec/conversation.h"
#include "codec/dialect/effort.h"
#include "codec/dialect/responses/tools.h"
#include "codec/profile.h"

namespace sluice::codec::responses {

struct Body {
  std::optional<std::string_view> model;
  std::optional<std::string_view> instructions;
  JsonValue input;  // a string or an array of items whose shape is checked, if it is there

  std::optional<int32_t> effort;  // 1-100 or kEffortOff
  JsonValue effort_asked;
  std::optional<std::string_view> summary;

  std::optional<double> temperature;
  std::optional<double> top_p;
  std::optional<uint64_t> max_output_tokens;
  std::optional<uint64_t> top_logprobs;
  std::optional<bool> stream;

  std::vector<RawTool> tools;
  JsonValue tools_asked;
  RawToolChoice tool_choice;
  JsonValue tool_choice_asked;
  std::optional<bool> parallel_tool_calls;

  ResponseFormat format = ResponseFormat::kText;
  JsonValue format_asked;     // text.format
  JsonValue response_schema;  // kJsonSchema; absent: any JSON
  bool response_strict = false;
  std::optional<std::string_view> verbosity;

  std::optional<bool> background;
  bool has_conversation = false;
  std::optional<std::string_view> previous_response_id;
  std::optional<bool> store;

  JsonValue service_tier;
  std::optional<std::string_view> user;
  std::optional<std::string_view> prompt_cache_key;

  std::vector<std::string> unknown_fields;  // fit for a header, at most kMaxIgnoredFieldsListed
};

// `strict`: the first unknown field is an error.
struct BodyRules {
  bool strict;
  const Profile& profile;
};
Status ReadBody(const JsonValue& root, const BodyRules& rules, Body& body);

}  // namespace sluice::codec::responses
