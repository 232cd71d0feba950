// hop 2 of 10: after ReadRequest, before Submit.
//
// Decode reads a Chat Completions body into the neutral middle. The order of its lines is the order
// in which errors are reported (spec recipe.md §6.1); texts that clients match on are the
// reference's (golden cases, reject.jsonl).

#include "codec/dialect/chat/decode.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json.h"
#include "base/limits.h"
#include "codec/dialect/chat/body.h"
#include "codec/dialect/field.h"
#include "codec/dialect/request_check.h"
#include "codec/dialect/sampling.h"
#include "codec/dialect/schema_check.h"
#include "codec/dialect/service_tier.h"
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

// The smaller of the two; the reference does not know the second.
Status ReadOutputLimit(const Body& body, const PrepareContext& context, std::optional<int32_t>& n) {
  const bool is_scored = AsksForScores(body.sampler, context.profile);
  SLUICE_TRY(CheckOutputLimit("max_tokens", body.max_tokens, context.model, is_scored));
  std::optional<uint64_t> asked = body.max_tokens;
  if (context.profile.extensions) {
    constexpr std::string_view kName = "max_completion_tokens";
    SLUICE_TRY(Named(CheckOutputLimit(kName, body.max_completion_tokens, context.model, is_scored),
                     kName));
    if (body.max_completion_tokens) {
      asked = std::min(asked.value_or(UINT64_MAX), *body.max_completion_tokens);
    }
  }
  if (asked) n = static_cast<int32_t>(*asked);
  return Status::Ok();
}

Status ReadNumbers(const Body& body, const PrepareContext& context, DecodedRequest& request) {
  wire::SamplingParams& sampling = request.sampling;
  SLUICE_TRY(ReadChoices(body.n, context.profile, request.answer.n_choices));
  SLUICE_TRY(ReadPenalty("presence_penalty", body.presence_penalty, sampling.presence_penalty));
  SLUICE_TRY(ReadPenalty("frequency_penalty", body.frequency_penalty, sampling.frequency_penalty));
  SLUICE_TRY(ReadTemperature(body.temperature, sampling.temperature));
  SLUICE_TRY(ReadTopP(body.top_p, sampling.top_p));
  SLUICE_TRY(ReadLogprobs(body, request.answer));
  sampling.logprobs = request.answer.logprobs;
  sampling.n_top_logprobs = request.answer.n_top_logprobs;

  SLUICE_TRY(ReadOutputLimit(body, context, request.n_max_asked));
  SLUICE_TRY(CheckSeed(body.seed));
  sampling.seed = body.seed;
  SLUICE_TRY(ReadLogitBias(body.logit_bias, context.format.n_tokens(), sampling.logit_bias));
  return ReadSamplerFields(body.sampler, context, request);
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
  conversation.response_is_strict = body.response_strict;
}

// What the reference does not know.
Status CheckExtensions(const Body& body) {
  if (body.effort_is_number) {
    return Status::Invalid("invalid request body: `reasoning_effort` must be a name");
  }
  if (body.tool_choice.only_allowed) {
    return Status::Invalid("invalid request body: `tool_choice.type` must be \"function\"");
  }
  if (std::ranges::any_of(*body.messages, &RawMessage::is_developer)) {
    return Status::Invalid("invalid request body: a message's role may not be \"developer\"");
  }
  return Status::Ok();
}

Status Convert(const Body& body, const PrepareContext& context, DecodedRequest& request) {
  Conversation& conversation = request.conversation;
  if (!context.profile.extensions) SLUICE_TRY(CheckExtensions(body));
  SLUICE_TRY(CheckModel(*body.model, context));
  request.answer.model = *body.model;
  SLUICE_TRY(CheckToolNames(body.tools));
  SLUICE_TRY(ConvertMessages(*body.messages, conversation.messages));
  DecideThinking(body, context, request);
  if (context.profile.missing_reasoning_reject && conversation.thinking &&
      !HasItsReasoning(conversation.messages, !body.tools.empty())) {
    return Status::Invalid(
        "The `reasoning_content` in the thinking mode must be passed back to the API.");
  }
  SLUICE_TRY(CheckPrefixPosition(*body.messages));
  SetResponseFormat(body, conversation);
  if (conversation.response_format == ResponseFormat::kJsonObject &&
      !ContainsJsonWord(conversation.messages)) {
    return Status::Invalid(
        "Prompt must contain the word 'json' in some form to use 'response_format' of type "
        "'json_object'.");
  }
  SLUICE_TRY(ConvertTools(body.tools, body.tool_choice, context.profile, conversation));
  ListUnmetChoice(body.tool_choice.mode, request);
  conversation.parallel_tool_calls = body.parallel_tool_calls.value_or(true);
  SLUICE_TRY(CheckPrefixCombinations(conversation));
  SLUICE_TRY(CheckStops("stop", body.stop, request.answer.stops));
  SLUICE_TRY(TakeStream(body.stream, request.answer));
  request.answer.tells_progress = request.answer.stream && body.return_progress.value_or(false);
  SLUICE_TRY(CheckResponseSchema(body));
  SLUICE_TRY(CheckStrictMix(conversation.tools, body.response_format.has_value()));
  SLUICE_TRY(ReadNumbers(body, context, request));
  request.request_class = ClassAsked(body.service_tier, context.request_class);
  return ReadUser(body, request.user);
}

}  // namespace

Result<DecodedRequest> Decode(std::string_view body, const PrepareContext& context) {
  Result<Json> json = Json::Parse(body);
  if (!json) return std::move(json.error().AddContext("invalid JSON request"));
  Body fields;
  SLUICE_TRY(ReadBody(json->root(), context.strict, fields));
  DecodedRequest request{.sampling = context.format.sampling()};
  request.ignored_fields = std::move(fields.unknown_fields);
  SLUICE_TRY(Convert(fields, context, request));
  if (fields.is_to_be_stored) request.ignored_fields.push_back("store");
  return request;
}

}  // namespace sluice::codec::chat
