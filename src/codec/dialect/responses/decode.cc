// hop 2 of 10: after ReadRequest, before Submit.
//
// Decode reads a Responses body into the neutral middle. The order of its lines is the order in
// which errors are reported (spec recipe.md §6.1); texts that clients match on are the reference's
// (golden cases, reject.jsonl).

#include "codec/dialect/responses/decode.h"

#include <fmt/format.h>

#include "base/json.h"
#include "base/limits.h"
#include "codec/dialect/request_check.h"
#include "codec/dialect/responses/body.h"
#include "codec/dialect/responses/echo.h"
#include "codec/dialect/responses/history.h"
#include "codec/dialect/responses/items.h"
#include "codec/dialect/responses/response_store.h"
#include "codec/dialect/responses/tools.h"
#include "codec/dialect/schema_check.h"
#include "codec/dialect/service_tier.h"
#include "codec/dialect/tool_check.h"

namespace sluice::codec::responses {
namespace {

void DecideThinking(const Body& body, const PrepareContext& context, DecodedRequest& request) {
  Conversation& conversation = request.conversation;
  conversation.thinking = body.effort ? *body.effort != kEffortOff : context.default_thinking;
  if (body.effort && *body.effort != kEffortOff) conversation.effort = *body.effort;
  request.answer.thinking = conversation.thinking;
}

// Instructions, then what went before, then `input`.
Status ConvertInput(const Body& body,
                    const ResolvedInput& resolved,
                    const Transcript::Params& params) {
  const bool has_instructions = body.instructions && !body.instructions->empty();
  if (!body.input.exists() && !body.instructions && resolved.items.empty()) {
    return Status::Invalid("Either input or instructions must be provided");
  }
  if (body.input.is_array() && body.input.size() == 0)
    return Status::Invalid("Input items array must not be empty");
  if (has_instructions) {
    params.messages.push_back({.role = Role::kSystem, .text = std::string(*body.instructions)});
  }
  Transcript transcript(params);
  for (const InputItem& item : resolved.items) SLUICE_TRY(transcript.Add(item));
  if (body.input.is_string()) SLUICE_TRY(transcript.AddUser(body.input.AsString()));
  return transcript.Close();
}

Status CheckFormat(const Body& body, Conversation& conversation) {
  conversation.response_format = body.format;
  conversation.response_is_strict = body.response_strict;
  if (body.format == ResponseFormat::kJsonObject && !ContainsJsonWord(conversation.messages)) {
    return Status::Invalid(
        "Response input messages must contain the word 'json' in some form to use 'text.format' of "
        "type 'json_object'.");
  }
  if (body.response_schema.exists()) {
    conversation.response_schema = body.response_schema.ToText();
    Status status = CheckJsonSchema(body.response_schema);
    if (!status.ok()) return std::move(status.AddContext("Invalid json schema"));
    if (body.response_strict) {
      SLUICE_TRY(CheckStrictSchema(body.response_schema,
                                   {.what = "json schema", .top_may_be_empty = false}));
    }
  }
  return CheckStrictMix(conversation.tools, body.format != ResponseFormat::kText);
}

Status ReadNumbers(const Body& body, const ModelCard& model, DecodedRequest& request) {
  wire::SamplingParams& sampling = request.sampling;
  SLUICE_TRY(ReadRange("temperature", body.temperature, {0, 2}, "[0, 2]", sampling.temperature));
  SLUICE_TRY(ReadRange("top_p", body.top_p, {kAboveZero, 1}, "(0, 1.0]", sampling.top_p));
  if (body.top_logprobs.value_or(0) > limits::kMaxTopLogprobs) {
    return Status::Invalid(
        fmt::format("Invalid top_logprobs value, the valid range of top_logprobs is [0, {}].",
                    limits::kMaxTopLogprobs));
  }
  request.answer.logprobs = body.top_logprobs.has_value();
  request.answer.n_top_logprobs = static_cast<int32_t>(body.top_logprobs.value_or(0));
  sampling.logprobs = request.answer.logprobs;
  sampling.n_top_logprobs = request.answer.n_top_logprobs;
  // The reference's name for its own limit; golden cases hold clients to it.
  SLUICE_TRY(CheckOutputLimit("max_tokens", body.max_output_tokens, model));
  if (body.max_output_tokens) request.n_max_asked = static_cast<int32_t>(*body.max_output_tokens);
  return Status::Ok();
}

// What the model may call: what it is offered, and what a search has found.
std::vector<Tool> Callable(const Conversation& conversation) {
  std::vector<Tool> tools = conversation.tools;
  for (const Message& message : conversation.messages)
    tools.insert(tools.end(), message.tools.begin(), message.tools.end());
  return tools;
}

KeepParams KeepAs(const Body& body, const PrepareContext& context, const ResolvedInput& resolved) {
  KeepParams keep;
  if (context.responses == nullptr || !body.store.value_or(true) || !context.profile.extensions)
    return keep;
  keep.input = KeptInput(body, resolved);
  const int64_t n_bytes = std::ssize(keep.input);
  if (n_bytes == 0 || !context.responses->Takes(n_bytes)) return {};
  keep.store = context.responses;
  keep.key = context.key;
  keep.was_asked = body.store.value_or(false);
  return keep;
}

Status Convert(const Body& body, const PrepareContext& context, DecodedRequest& request) {
  Conversation& conversation = request.conversation;
  AnswerSpec& answer = request.answer;
  SLUICE_TRY(CheckModel(*body.model, context));
  answer.model = *body.model;
  ResolvedInput resolved;
  SLUICE_TRY(ResolvePrevious(body, context, resolved));
  ToolNames names;
  std::vector<OfferedTool> offered;
  SLUICE_TRY(OfferTools(body.tools, {.profile = context.profile, .ignored = request.ignored_fields},
                        names, offered));
  SLUICE_TRY(ResolveInput(body, context, resolved));
  SLUICE_TRY(ConvertInput(body, resolved,
                          {.names = names,
                           .messages = conversation.messages,
                           .ignored = request.ignored_fields,
                           .reads_images = context.model.reads_images}));
  DecideThinking(body, context, request);
  if (context.profile.missing_reasoning_reject && conversation.thinking &&
      !HasItsReasoning(conversation.messages, !offered.empty())) {
    return Status::Invalid(
        "The `reasoning_text` in the thinking mode must be passed back to the API.");
  }
  SLUICE_TRY(ConvertTools(
      {.offered = offered, .choice = body.tool_choice, .names = names, .profile = context.profile},
      conversation));
  ListUnmetChoice(body.tool_choice.mode, request);
  conversation.parallel_tool_calls = body.parallel_tool_calls.value_or(true);
  SLUICE_TRY(CheckFormat(body, conversation));
  SLUICE_TRY(ReadNumbers(body, context.model, request));
  SLUICE_TRY(CheckUser(body.user));
  const std::string_view cache_key = body.prompt_cache_key.value_or("");
  request.user = body.user ? *body.user : cache_key.substr(0, limits::kMaxUserIdBytes);
  answer.stream = body.stream.value_or(false);
  answer.tools = Callable(conversation);
  request.request_class = ClassAsked(body.service_tier, context.request_class);
  answer.echo =
      EchoOf(body, {.previous = resolved.previous,
                    .request_class = request.request_class.value_or(wire::RequestClass::kDefault),
                    .unasked = context.format.sampling()});
  answer.keep = KeepAs(body, context, resolved);
  return Status::Ok();
}

}  // namespace

Result<DecodedRequest> Decode(std::string_view body, const PrepareContext& context) {
  Result<Json> json = Json::Parse(body);
  if (!json) return std::move(json.error().AddContext("invalid JSON request"));
  Body fields;
  SLUICE_TRY(
      ReadBody(json->root(), {.strict = context.strict, .profile = context.profile}, fields));
  DecodedRequest request{.sampling = context.format.sampling()};
  request.ignored_fields = std::move(fields.unknown_fields);
  SLUICE_TRY(Convert(fields, context, request));
  return request;
}

}  // namespace sluice::codec::responses
