// hop 2 of 10: after ReadRequest, before Submit.
//
// Decode reads a Messages body into the neutral middle. The order of its lines is the order in
// which errors are reported (spec recipe.md §6.1); texts that clients match on are the reference's
// (golden cases, reject.jsonl).

#include "codec/dialect/messages/decode.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/json.h"
#include "base/limits.h"
#include "codec/dialect/effort.h"
#include "codec/dialect/field.h"
#include "codec/dialect/messages/body.h"
#include "codec/dialect/request_check.h"
#include "codec/dialect/sampling.h"
#include "codec/dialect/schema_check.h"
#include "codec/dialect/tool_check.h"

namespace sluice::codec::messages {
namespace {

// Clients of this API ask for models by names of another maker's, whatever they were configured
// for: those are served by the default model (spec clients.md §1).
Status CheckModelName(std::string_view asked, const PrepareContext& context) {
  return context.profile.strict_model_names ? CheckModel(asked, context) : Status::Ok();
}

// spec recipe.md §3.6: `thinking` decides, else the effort, else the server.
void DecideThinking(const Body& body, const PrepareContext& context, Conversation& conversation) {
  if (body.thinking) {
    conversation.thinking = *body.thinking;
  } else if (body.effort) {
    conversation.thinking = *body.effort != kEffortOff;
  } else {
    conversation.thinking = context.default_thinking;
  }
  if (body.effort && *body.effort != kEffortOff) conversation.effort = *body.effort;
}

Status ConvertHistory(const Body& body,
                      const PrepareContext& context,
                      const ClientTools& tools,
                      Conversation& conversation) {
  if (body.system)
    ConvertSystem(*body.system, context.profile, conversation.messages.emplace_back());
  const ConvertParams params{
      .tools = tools, .profile = context.profile, .reads_images = context.model.reads_images};
  SLUICE_TRY(ConvertMessages(params, *body.messages, conversation.messages));
  Message& last = conversation.messages.back();
  last.is_prefix = context.profile.messages_prefill_continue && last.role == Role::kAssistant;
  if (conversation.thinking && context.profile.missing_reasoning_reject &&
      !HasItsReasoning(conversation.messages, !body.tools.empty())) {
    return Status::Invalid(
        "The `content[].thinking` in the thinking mode must be passed back to the API.");
  }
  return Status::Ok();
}

Status ReadFormat(const Body& body, Conversation& conversation) {
  if (!body.has_format) return Status::Ok();
  Status status = CheckJsonSchema(body.format_schema);
  if (!status.ok()) return std::move(status.AddContext("output_config.format.schema"));
  conversation.response_format = ResponseFormat::kJsonSchema;
  conversation.response_schema = body.format_schema.ToText();
  return Status::Ok();
}

Status ReadNumbers(const Body& body, const PrepareContext& context, DecodedRequest& request) {
  wire::SamplingParams& sampling = request.sampling;
  SLUICE_TRY(ReadTemperature(body.temperature, sampling.temperature));
  SLUICE_TRY(ReadTopP(body.top_p, sampling.top_p));
  if (body.max_tokens) {
    // A limit above ours is lowered; only 0 is refused.
    const uint64_t n_max =
        std::min(*body.max_tokens, static_cast<uint64_t>(context.model.n_output_max));
    SLUICE_TRY(CheckOutputLimit("max_tokens", n_max, context.model));
    request.n_max_asked = static_cast<int32_t>(n_max);
  }
  sampling.top_k = static_cast<int32_t>(
      std::min<uint64_t>(body.top_k.value_or(0), std::numeric_limits<int32_t>::max()));
  if (context.profile.extensions && body.thinking_is_enabled && body.budget_tokens) {
    if (*body.budget_tokens == 0) {
      return Status::Invalid(
          "Invalid thinking.budget_tokens value 0, it must be at least 1; `thinking.type` disabled "
          "turns thinking off");
    }
    request.thinking_budget = static_cast<int32_t>(
        std::min(*body.budget_tokens, static_cast<uint64_t>(context.model.n_output_max)));
  }
  return Status::Ok();
}

Status Convert(const Body& body, const PrepareContext& context, DecodedRequest& request) {
  Conversation& conversation = request.conversation;
  SLUICE_TRY(CheckModelName(*body.model, context));
  request.answer.model = *body.model;
  ClientTools tools;
  SLUICE_TRY(SelectTools(body.tools, context.profile, tools));
  DecideThinking(body, context, conversation);
  request.answer.thinking = conversation.thinking;
  SLUICE_TRY(ConvertHistory(body, context, tools, conversation));
  SLUICE_TRY(ConvertTools(tools, body.tool_choice, context.profile, conversation));
  ListUnmetChoice(body.tool_choice.mode, request);
  SLUICE_TRY(ReadFormat(body, conversation));
  SLUICE_TRY(CheckStops("stop_sequences", body.stop, request.answer.stops));
  request.answer.stream = body.stream.value_or(false);
  request.answer.keeps_broken_values =
      true;  // spec recipe.md §8.8; golden messages/tool-invalid-json
  SLUICE_TRY(ReadNumbers(body, context, request));
  request.user = body.user.value_or("").substr(0, limits::kMaxUserIdBytes);
  return Status::Ok();
}

}  // namespace

Result<DecodedRequest> Decode(std::string_view body, const PrepareContext& context) {
  Result<Json> json = Json::Parse(body);
  if (!json) return std::move(json.error().AddContext("invalid JSON request"));
  Body fields{.extensions = context.profile.extensions};
  SLUICE_TRY(ReadBody(json->root(), fields));
  DecodedRequest request{.sampling = context.format.sampling()};
  request.ignored_fields = std::move(fields.unknown_fields);
  SLUICE_TRY(Convert(fields, context, request));
  return request;
}

}  // namespace sluice::codec::messages
