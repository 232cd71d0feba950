// Body: the fields of a Messages request, types checked and nothing else. Field by field what
// dialect/messages/schema.md says. Plain data; its views live as long as the request's JSON.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "codec/dialect/messages/messages.h"
#include "codec/dialect/messages/tools.h"
#include "codec/dialect/sampling.h"

namespace sluice::codec::messages {

struct Body {
  bool extensions = true;  // fields and values beyond the reference's

  std::optional<std::string_view> model;
  std::optional<RawSystem> system;
  std::optional<std::vector<RawMessage>> messages;

  std::optional<bool> thinking;      // thinking.type
  bool thinking_is_enabled = false;  // `enabled`, not `adaptive`: a budget counts
  std::optional<uint64_t> budget_tokens;
  std::optional<int32_t> effort;  // 1-100 or kEffortOff
  bool has_format = false;        // output_config.format
  JsonValue format_schema;

  std::optional<uint64_t> max_tokens;
  std::optional<double> temperature;
  std::optional<double> top_p;
  std::optional<uint64_t> top_k;
  RawStops stop;
  std::optional<bool> stream;

  std::vector<RawTool> tools;
  RawToolChoice tool_choice;
  std::optional<std::string_view> user;  // metadata.user_id

  std::vector<std::string> unknown_fields;  // fit for a header, at most kMaxIgnoredFieldsListed
};

// `body.extensions` is set before. Unknown fields are never an error: clients send new ones every
// week.
Status ReadBody(const JsonValue& root, Body& body);

}  // namespace sluice::codec::messages
