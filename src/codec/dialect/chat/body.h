// Body: the fields of a Chat request, types checked and nothing else. Field by field what
// dialect/chat/schema.md says. Plain data; its views live as long as the request's JSON.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "codec/conversation.h"
#include "codec/dialect/chat/messages.h"
#include "codec/dialect/chat/tools.h"
#include "codec/dialect/effort.h"
#include "codec/dialect/request_check.h"
#include "codec/dialect/sampling.h"

namespace sluice::codec::chat {

struct Body {
  std::optional<std::string_view> model;
  std::optional<std::vector<RawMessage>> messages;

  std::optional<bool> thinking;           // thinking.type
  std::optional<int32_t> effort;          // 1-100 or kEffortOff
  bool effort_is_number = false;          // instead of a name
  std::optional<bool> template_thinking;  // chat_template_kwargs, if the fields are absent
  std::optional<int32_t> template_effort;

  std::optional<uint64_t> max_tokens;
  std::optional<uint64_t> max_completion_tokens;
  std::optional<double> temperature;
  std::optional<double> top_p;
  std::optional<double> frequency_penalty;
  std::optional<double> presence_penalty;
  std::optional<uint64_t> seed;
  std::optional<uint64_t> n;
  std::optional<bool> logprobs;
  std::optional<uint64_t> top_logprobs;
  JsonValue logit_bias;  // an object, if it is there
  RawSamplerFields sampler;

  RawStops stop;
  RawStream stream;
  std::optional<bool> return_progress;

  std::vector<RawTool> tools;
  RawToolChoice tool_choice;
  std::optional<bool> parallel_tool_calls;

  std::optional<ResponseFormat> response_format;
  JsonValue response_schema;  // kJsonSchema; absent: any JSON
  bool response_strict = false;
  std::string_view response_pattern;  // kRegex

  JsonValue service_tier;
  std::optional<std::string_view> user_id;
  std::optional<std::string_view> user;

  bool is_to_be_stored = false;             // answers of Chat are not
  std::vector<std::string> unknown_fields;  // fit for a header, at most kMaxIgnoredFieldsListed
};

// `strict`: the first unknown field is an error.
Status ReadBody(const JsonValue& root, bool strict, Body& body);

}  // namespace sluice::codec::chat
