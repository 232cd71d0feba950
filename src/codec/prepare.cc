// hop 2 of 10: after ReadRequest, before Submit.
//
// Prepare joins the two halves of hop 2, a dialect's Decode and the format's Render, and does what
// neither may know alone: the context check, the default limit, where the output starts, what holds
// the sampler, the script line.

#include <fmt/format.h>

#include <algorithm>

#include "base/limits.h"
#include "codec/dialect.h"
#include "codec/dialect/sampling.h"
#include "codec/dialect/service_tier.h"
#include "codec/format/prompt.h"
#include "codec/json_escape.h"
#include "codec/script_book.h"

namespace sluice::codec {
namespace {

// Default output limits (spec recipe.md §6).
constexpr int64_t kDefaultMax = 8'192;
constexpr int64_t kDefaultMaxThinking = 65'536;
constexpr int64_t kDefaultMaxEffort100 = 131'072;

int64_t DefaultMax(const Conversation& conversation) {
  if (!conversation.thinking) return kDefaultMax;
  return conversation.effort == 100 ? kDefaultMaxEffort100 : kDefaultMaxThinking;
}

// Tokens to generate at most, or why the request does not fit.
Result<int32_t> OutputLimit(const Dialect& dialect,
                            const DecodedRequest& request,
                            int64_t n_prompt,
                            const PrepareContext& context) {
  const ModelCard& model = context.model;
  // A small model also answers clients that are set up for the first family's context. What is more
  // than its whole context is no wish for a part of it: they get what is left.
  const bool is_any =
      !context.format.thinks() && request.n_max_asked.value_or(0) >= model.n_context;
  const int64_t n_asked = is_any ? 0 : request.n_max_asked.value_or(0);
  if (n_prompt + n_asked > model.n_context) {
    const bool has_code = context.profile.extensions;
    return Status(has_code ? ErrorCode::kContextLength : ErrorCode::kInvalidArgument,
                  dialect.overflow_text(
                      {.n_prompt = n_prompt, .n_asked = n_asked, .n_context = model.n_context}));
  }
  const int64_t n_left = model.n_context - n_prompt;
  if (is_any) return static_cast<int32_t>(std::max<int64_t>(n_left, 1));
  if (request.n_max_asked) return *request.n_max_asked;
  const int64_t n_default = std::min<int64_t>(DefaultMax(request.conversation), model.n_output_max);
  return static_cast<int32_t>(std::clamp<int64_t>(n_left, 1, n_default));
}

// spec recipe.md §8.2; a prefix is continued, so its line feeds are the client's. Without thinking
// only here, not in the reference (golden chat/prefix/content-plain).
OutputStart StartOf(const Conversation& conversation, const Profile& profile) {
  if (conversation.raw) return OutputStart::kContentContinued;
  const OutputStart fresh = conversation.thinking ? OutputStart::kReasoning : OutputStart::kContent;
  if (conversation.messages.empty() || !conversation.messages.back().is_prefix) return fresh;
  const Message& prefix = conversation.messages.back();
  if (!prefix.text.empty() && (conversation.thinking || profile.extensions)) {
    return OutputStart::kContentContinued;
  }
  if (!conversation.thinking) return OutputStart::kContent;
  const bool has_reasoning = prefix.reasoning && !prefix.reasoning->empty();
  return has_reasoning ? OutputStart::kReasoningContinued : OutputStart::kReasoning;
}

void DescribeOutput(const Conversation& conversation,
                    const PrepareContext& context,
                    AnswerSpec& answer) {
  const Profile& profile = context.profile;
  answer.profile = profile;
  answer.thinking = conversation.thinking;
  answer.start = StartOf(conversation, profile);
  if (answer.tools.empty()) answer.tools = conversation.tools;
  answer.parses_calls = !conversation.tools.empty();
  answer.calls_opening = context.format.CallsOpening(conversation);
  answer.starts_in_calls = !answer.calls_opening.empty();
  answer.is_json = conversation.response_format == ResponseFormat::kJsonObject;
}

Status CheckScores(const DecodedRequest& request, int64_t n_prompt) {
  if (!request.sampling.n_prompt_logprobs || n_prompt <= limits::kMaxScoredTokens) {
    return Status::Ok();
  }
  return Status::InvalidField(
      request.answer.prompt_scores.n_top ? "prompt_logprobs" : "echo",
      fmt::format("the prompt has {} tokens, at most {} can be scored (`echo` with `logprobs`, "
                  "`prompt_logprobs`)",
                  n_prompt, limits::kMaxScoredTokens));
}

// What nothing enforces until there are grammars: listed, never dropped in silence.
void ListUnenforced(const DecodedRequest& request, std::vector<std::string>& ignored) {
  const Conversation& conversation = request.conversation;
  const bool is_strict = std::ranges::any_of(
      conversation.tools, [](const Tool& tool) { return tool.strict.value_or(false); });
  if (is_strict) ignored.push_back("tools.strict");
  if (ForcesCall(conversation.tool_choice) && conversation.thinking &&
      !conversation.tools.empty()) {
    ignored.push_back("tool_choice");
  }
  if (!conversation.parallel_tool_calls && !conversation.tools.empty()) {
    ignored.push_back("parallel_tool_calls");
  }
  if (conversation.response_format == ResponseFormat::kJsonSchema ||
      conversation.response_format == ResponseFormat::kRegex) {
    ignored.push_back("response_format");
  }
  if (request.thinking_budget) ignored.push_back("thinking_budget");
}

Status CheckImages(const Conversation& conversation, const ModelCard& model) {
  int64_t n_images = 0;
  for (const Message& message : conversation.messages) {
    n_images += std::ssize(message.images);
    if (message.images.empty() || model.reads_images) continue;
    const std::string& path = message.images.front().path;
    return Status::InvalidField(
        path, fmt::format("`{}` has an image, but this model reads text only", path));
  }
  if (n_images <= limits::kMaxImages) return Status::Ok();
  return Status::Invalid(fmt::format("the request has {} images, at most {} are allowed", n_images,
                                     limits::kMaxImages));
}

// The memory of turns never makes a prompt too long: reasoning that a client left out to save room
// comes back only if there is room.
EncodedPrompt EncodeFor(DecodedRequest& request,
                        const Prompt& prompt,
                        const PrepareContext& context) {
  std::optional<RawPrompt>& raw = request.conversation.raw;
  if (raw && !raw->ids.empty()) {
    EncodedPrompt encoded;
    encoded.ids = std::move(raw->ids);
    return encoded;
  }
  TurnMemory* const turns = context.profile.splice_turns ? context.turns : nullptr;
  EncodedPrompt encoded = Encode(prompt, context.format, turns, context.key);
  const int64_t n_needed = std::ssize(encoded.ids) + request.n_max_asked.value_or(0);
  if (encoded.n_spliced == 0 || n_needed <= context.model.n_context) return encoded;
  return Encode(prompt, context.format);
}

std::vector<PromptImage> ImagesOf(const Prompt& prompt, const std::vector<int32_t>& positions) {
  std::vector<PromptImage> images;
  for (size_t i = 0; i < positions.size(); ++i) {
    images.push_back({.image = *prompt.images[i], .pos = positions[i]});
  }
  return images;
}

std::shared_ptr<const wire::ScriptPlay> ChoosePlay(const Dialect& dialect,
                                                   const DecodedRequest& request,
                                                   int64_t n_prompt,
                                                   const PrepareContext& context) {
  if (context.script == nullptr) return nullptr;
  std::shared_ptr<const wire::ScriptPlay> play =
      context.script->Choose(dialect.name, request, context.format);
  if (play->refuse.code() != ErrorCode::kContextLength) return play;
  // Clients read both numbers and expect the first to be the larger one (spec clients.md §5).
  const int64_t n_told = std::max<int64_t>(n_prompt, int64_t{context.model.n_context} + 1);
  auto refusal = std::make_shared<wire::ScriptPlay>(*play);
  refusal->refuse = Status(
      ErrorCode::kContextLength,
      fmt::format("prompt is too long: {} tokens > {} maximum", n_told, context.model.n_context));
  return refusal;
}

// What a model that does not think is asked of it is listed; that it does not is nobody's default.
Result<DecodedRequest> Decode(const Dialect& dialect,
                              std::string_view body,
                              const PrepareContext& context) {
  if (context.format.thinks()) return dialect.decode(body, context);
  PrepareContext without = context;
  without.default_thinking = false;
  SLUICE_TRY(DecodedRequest request, dialect.decode(body, without));
  if (!request.conversation.thinking) return request;
  request.conversation.thinking = false;
  request.answer.thinking = false;
  request.thinking_budget.reset();
  request.ignored_fields.push_back(dialect.api == Api::kResponses ? "reasoning" : "thinking");
  return request;
}

}  // namespace

Result<Prepared> Prepare(const Dialect& dialect,
                         std::string_view body,
                         const PrepareContext& context) {
  if (!context.profile.extensions && HasLoneSurrogate(body)) {
    return Status::Invalid("invalid JSON request: half of a surrogate pair is no character");
  }
  SLUICE_TRY(DecodedRequest request, Decode(dialect, body, context));
  Conversation& conversation = request.conversation;
  SLUICE_TRY(CheckImages(conversation, context.model));
  NormalizeStrictTools(conversation);
  if (conversation.response_format == ResponseFormat::kJsonSchema &&
      conversation.response_schema.empty()) {
    conversation.response_schema = "{}";  // no schema was given: any JSON
  }
  const bool is_text = !conversation.raw || conversation.raw->ids.empty();
  const Prompt prompt = context.format.Render(conversation, context.profile);
  EncodedPrompt encoded = EncodeFor(request, prompt, context);
  auto ids = std::make_shared<const std::vector<TokenId>>(std::move(encoded.ids));

  Prepared prepared;
  prepared.images = ImagesOf(prompt, encoded.images);
  const int64_t n_prompt = std::ssize(*ids);
  SLUICE_TRY(prepared.generate.n_max, OutputLimit(dialect, request, n_prompt, context));
  SLUICE_TRY(CheckScores(request, n_prompt));
  if (request.sampling.n_prompt_logprobs) {
    request.answer.prompt_scores.prompt = *ids;
    // The token that begins every text.
    request.answer.prompt_scores.n_ours = is_text && context.format.begin() ? 1 : 0;
  }
  prepared.generate.script = ChoosePlay(dialect, request, n_prompt, context);
  prepared.generate.prompt = std::move(ids);
  ApplySamplingPolicy(context.profile, conversation.thinking, request.sampling);
  prepared.generate.sampling = std::move(request.sampling);
  prepared.generate.stop_ids.assign(request.stop_ids.begin(), request.stop_ids.end());
  // A model has one end token of its own.
  const std::span<const TokenId> ends = context.format.ends();
  if (ends.size() > 1) {
    prepared.generate.stop_ids.insert(prepared.generate.stop_ids.end(), ends.begin(), ends.end());
  }
  prepared.constraint = ConstraintOf(conversation);
  prepared.generate.request_class = request.request_class.value_or(context.request_class);
  prepared.thinking_budget = request.thinking_budget;
  prepared.answer = std::move(request.answer);
  if (request.request_class) prepared.answer.service_tier = TierName(*request.request_class);
  DescribeOutput(conversation, context, prepared.answer);
  prepared.answer.turn = std::move(encoded.answer);
  prepared.answer.n_prompt = static_cast<int32_t>(n_prompt);
  prepared.n_history_turns = static_cast<int32_t>(prompt.turns.size());
  prepared.n_spliced_turns = encoded.n_spliced;
  prepared.n_missing_reasoning = prompt.n_missing_reasoning - encoded.n_restored_reasoning;
  ListUnenforced(request, request.ignored_fields);
  prepared.ignored_fields = std::move(request.ignored_fields);
  return prepared;
}

}  // namespace sluice::codec
