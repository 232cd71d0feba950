// hop 2 of 10: after ReadRequest, before Submit.
//
// Decode reads a Chat Completions body into the neutral middle. The order of its lines is the order
// in which errors are reported (spec recipe.md §6.1); texts that clients match on are the
// reference's (golden cases, reject.jsonl).

#include "codec/dialect/chat/decode.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/json.h"
#include "base/limits.h"
#include "codec/dialect/chat/body.h"
#include "codec/dialect/field.h"
#include "codec/dialect/request_check.h"
#include "codec/dialect/schema_check.h"
#include "codec/dialect/tool_check.h"

namespace sluice::codec::chat {
namespace {

// spec recipe.md §3.6: `thinking` decides, else the effort, else the server.
void DecideThinking(const Body& body, const PrepareContext& context, DecodedRequest& request) {
  std::optional<bool> thinking = body.thinking ? body.thinking : body.template_thinking;
  std::optional<int32_t> effort = body.effort ? body.effort : body.template_effort;
  Conversation& conversation = request.conversation;
  if (thinking) {
    conversation.thinking = *thinking;
  } else if (effort) {
    conversation.thinking = *effort != kEffortOff;
  } else {
    conversation.thinking = context.default_thinking;
  }
  if (effort && *effort != kEffortOff) conversation.effort = *effort;
  request.answer.thinking = conversation.thinking;
}

Status CheckPrefixCombinations(const Conversation& conversation) {
  if (conversation.messages.empty() || !conversation.messages.back().is_prefix) return Status::Ok();
  const bool has_calls = std::ranges::any_of(conversation.messages, [](const Message& m) {
    return m.role == Role::kTool || !m.calls.empty();
  });
  if (!conversation.tools.empty() || has_calls)
    return Status::Invalid("Function call should not be used with prefix");
  if (conversation.response_format == ResponseFormat::kJsonObject) {
    return Status::Invalid("response_format json_object should not be used with prefix");
  }
  return Status::Ok();
}

Status ReadStops(const Body& body, AnswerSpec& answer) {
  if (body.stops.size() > limits::kMaxStops) {
    return Status::Invalid(fmt::format("Stop string array too long: {}", body.stops.size()));
  }
  for (size_t i = 0; i < body.stops.size(); ++i) {
    std::string path = body.stop_is_list ? fmt::format("stop[{}]", i) : "stop";
    if (body.stops[i].empty()) {
      return Status::Invalid(fmt::format(
          "Invalid '{}': empty string. Expected a string with minimum length 1, but got an empty "
          "string instead.",
          path));
    }
    if (body.stops[i].size() > limits::kMaxStopBytes) {
      return Status::InvalidField("stop",
                                  fmt::format("`{}` has {} bytes, at most {} are allowed", path,
                                              body.stops[i].size(), limits::kMaxStopBytes));
    }
    answer.stops.emplace_back(body.stops[i]);
  }
  return Status::Ok();
}

Status ReadStream(const Body& body, AnswerSpec& answer) {
  answer.stream = body.stream.value_or(false);
  if (body.has_stream_options && !answer.stream) {
    return Status::Invalid("stream_options should be set along with stream = true");
  }
  answer.include_usage = body.include_usage.value_or(false);
  return Status::Ok();
}

Status CheckResponseSchema(const Body& body) {
  if (body.response_format != ResponseFormat::kJsonSchema || !body.response_schema.exists())
    return Status::Ok();
  Status status = CheckJsonSchema(body.response_schema);
  if (!status.ok()) return std::move(status.AddContext("Invalid json schema"));
  if (!body.response_strict) return Status::Ok();
  return CheckStrictSchema(body.response_schema,
                           {.what = "json schema", .top_may_be_empty = false});
}

Status ReadLogprobs(const Body& body, AnswerSpec& answer) {
  answer.logprobs = body.logprobs.value_or(false);
  if (!body.top_logprobs) return Status::Ok();
  if (!answer.logprobs) {
    return Status::Invalid(
        "Invalid top_logprobs and logprobs value, logprobs must be set to true if top_logprobs is "
        "used.");
  }
  if (*body.top_logprobs > limits::kMaxTopLogprobs) {
    return Status::Invalid(
        fmt::format("Invalid top_logprobs value, the valid range of top_logprobs is [0, {}].",
                    limits::kMaxTopLogprobs));
  }
  answer.n_top_logprobs = static_cast<int32_t>(*body.top_logprobs);
  return Status::Ok();
}

// {"17": -100}: token ids as decimal keys.
Status ReadLogitBias(const JsonValue& value,
                     int32_t n_vocabulary,
                     std::vector<wire::LogitBias>& biases) {
  constexpr std::string_view kName = "logit_bias";
  if (value.size() > limits::kMaxLogitBias) {
    return Status::InvalidField(std::string(kName),
                                fmt::format("`{}` has {} entries, at most {} are allowed", kName,
                                            value.size(), limits::kMaxLogitBias));
  }
  for (JsonMember member : value.members()) {
    int32_t id = -1;
    const char* end = member.key.data() + member.key.size();
    auto [parsed, error] = std::from_chars(member.key.data(), end, id);
    const bool is_canonical =
        error == std::errc() && parsed == end && fmt::to_string(id) == member.key;
    if (!is_canonical || id < 0 || id >= n_vocabulary) {
      return Status::InvalidField(
          std::string(kName),
          fmt::format("a key of `{}` must be a token id from 0 to {}, not \"{}\"", kName,
                      n_vocabulary - 1, Shorten(member.key)));
    }
    if (!member.value.is_number() || !InRange(member.value.AsDouble(), -100, 100)) {
      return Named(
          WrongValue(fmt::format("{}.{}", kName, id), "a number from -100 to 100", member.value),
          kName);
    }
    biases.push_back({.token = TokenId(id), .bias = static_cast<float>(member.value.AsDouble())});
  }
  return Status::Ok();
}

Status ReadChoices(const Body& body, AnswerSpec& answer) {
  if (!body.n) return Status::Ok();
  // The reference's words for its own limit; golden cases hold clients to them.
  if (*body.n == 0) return Status::Invalid("Invalid n value (currently only n = 1 is supported)");
  if (*body.n > limits::kMaxChoices) {
    return Status::InvalidField(
        "n", fmt::format("Invalid n value {}, the valid range of n is [1, {}]", *body.n,
                         limits::kMaxChoices));
  }
  answer.n_choices = static_cast<int32_t>(*body.n);
  return Status::Ok();
}

Status ReadNumbers(const Body& body, const ModelCard& model, DecodedRequest& request) {
  wire::SamplingParams& sampling = request.sampling;
  SLUICE_TRY(ReadChoices(body, request.answer));
  SLUICE_TRY(ReadRange("presence_penalty", body.presence_penalty, {-2, 2}, "[-2, 2]",
                       sampling.presence_penalty));
  SLUICE_TRY(ReadRange("frequency_penalty", body.frequency_penalty, {-2, 2}, "[-2, 2]",
                       sampling.frequency_penalty));
  SLUICE_TRY(ReadRange("temperature", body.temperature, {0, 2}, "[0, 2]", sampling.temperature));
  SLUICE_TRY(ReadRange("top_p", body.top_p, {kAboveZero, 1}, "(0, 1.0]", sampling.top_p));
  SLUICE_TRY(ReadLogprobs(body, request.answer));
  sampling.logprobs = request.answer.logprobs;
  sampling.n_top_logprobs = request.answer.n_top_logprobs;

  SLUICE_TRY(CheckOutputLimit("max_tokens", body.max_tokens, model));
  SLUICE_TRY(Named(CheckOutputLimit("max_completion_tokens", body.max_completion_tokens, model),
                   "max_completion_tokens"));
  if (body.max_tokens || body.max_completion_tokens) {
    request.n_max_asked = static_cast<int32_t>(std::min(
        body.max_tokens.value_or(UINT64_MAX), body.max_completion_tokens.value_or(UINT64_MAX)));
  }
  if (body.seed && *body.seed > static_cast<uint64_t>(INT64_MAX)) {
    return Status::Invalid("Invalid seed value, the valid range of seed is [0, 2^63)");
  }
  sampling.seed = body.seed;
  return ReadLogitBias(body.logit_bias, model.n_vocabulary, sampling.logit_bias);
}

Status ReadUser(const Body& body, std::string& user) {
  constexpr std::string_view kAllowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
  if (body.user_id && (body.user_id->empty() || body.user_id->size() > limits::kMaxUserIdBytes ||
                       body.user_id->find_first_not_of(kAllowed) != std::string_view::npos)) {
    return Status::InvalidField(
        "user_id", fmt::format("`user_id` must be 1 to {} of [a-zA-Z0-9_-], not \"{}\"",
                               limits::kMaxUserIdBytes, Shorten(*body.user_id)));
  }
  SLUICE_TRY(CheckUser(body.user));
  user = body.user_id ? *body.user_id : body.user.value_or("");
  return Status::Ok();
}

void SetResponseFormat(const Body& body, Conversation& conversation) {
  conversation.response_format = body.response_format.value_or(ResponseFormat::kText);
  if (body.response_schema.exists()) conversation.response_schema = body.response_schema.ToText();
  if (conversation.response_format == ResponseFormat::kRegex)
    conversation.response_schema = body.response_pattern;
}

Status Convert(const Body& body, const PrepareContext& context, DecodedRequest& request) {
  Conversation& conversation = request.conversation;
  SLUICE_TRY(CheckModel(*body.model, context));
  request.answer.model = *body.model;
  SLUICE_TRY(CheckToolNames(body.tools));
  SLUICE_TRY(ConvertMessages(*body.messages, conversation.messages));
  DecideThinking(body, context, request);
  SLUICE_TRY(CheckPrefixPosition(*body.messages));
  SetResponseFormat(body, conversation);
  if (conversation.response_format == ResponseFormat::kJsonObject &&
      !ContainsJsonWord(conversation.messages)) {
    return Status::Invalid(
        "Prompt must contain the word 'json' in some form to use 'response_format' of type "
        "'json_object'.");
  }
  SLUICE_TRY(ConvertTools(body.tools, body.tool_choice, conversation));
  conversation.parallel_tool_calls = body.parallel_tool_calls.value_or(true);
  SLUICE_TRY(CheckPrefixCombinations(conversation));
  SLUICE_TRY(ReadStops(body, request.answer));
  SLUICE_TRY(ReadStream(body, request.answer));
  SLUICE_TRY(CheckResponseSchema(body));
  SLUICE_TRY(CheckStrictMix(conversation.tools, body.response_format.has_value()));
  SLUICE_TRY(ReadNumbers(body, context.model, request));
  return ReadUser(body, request.user);
}

}  // namespace

Result<DecodedRequest> Decode(std::string_view body, const PrepareContext& context) {
  Result<Json> json = Json::Parse(body);
  if (!json) return std::move(json.error().AddContext("invalid JSON request"));
  Body fields;
  SLUICE_TRY(ReadBody(json->root(), context.strict, fields));
  DecodedRequest request;
  SLUICE_TRY(Convert(fields, context, request));
  request.ignored_fields = std::move(fields.unknown_fields);
  return request;
}

}  // namespace sluice::codec::chat
