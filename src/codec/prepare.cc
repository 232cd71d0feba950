// hop 2 of 10: after ReadRequest, before Submit.
//
// Prepare joins the two halves of hop 2, a dialect's Decode and a format's Render, and does what
// neither may know alone: the context check, the default limit, where the output starts, the script
// line.

#include <fmt/format.h>

#include <algorithm>

#include "codec/dialect.h"
#include "codec/format/bytes/render.h"
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
                            const ModelCard& model) {
  const int64_t n_asked = request.n_max_asked.value_or(0);
  if (n_prompt + n_asked > model.n_context) {
    return Status(ErrorCode::kContextLength,
                  dialect.overflow_text(
                      {.n_prompt = n_prompt, .n_asked = n_asked, .n_context = model.n_context}));
  }
  if (n_asked > 0) return static_cast<int32_t>(n_asked);
  const int64_t n_left = model.n_context - n_prompt;
  const int64_t n_default = std::min<int64_t>(DefaultMax(request.conversation), model.n_output_max);
  return static_cast<int32_t>(std::clamp<int64_t>(n_left, 1, n_default));
}

// spec recipe.md §8.2; a prefix is continued, so its line feeds are the client's. Without thinking
// too (golden chat/prefix/content-plain).
OutputStart StartOf(const Conversation& conversation) {
  if (conversation.raw) return OutputStart::kContentContinued;
  const OutputStart fresh = conversation.thinking ? OutputStart::kReasoning : OutputStart::kContent;
  if (conversation.messages.empty() || !conversation.messages.back().is_prefix) return fresh;
  const Message& prefix = conversation.messages.back();
  if (!prefix.text.empty()) return OutputStart::kContentContinued;
  if (!conversation.thinking) return OutputStart::kContent;
  const bool has_reasoning = prefix.reasoning && !prefix.reasoning->empty();
  return has_reasoning ? OutputStart::kReasoningContinued : OutputStart::kReasoning;
}

// What the byte format cannot do: it renders no tools and has no grammar. Such fields are listed,
// never dropped in silence.
void ListUnenforced(const Conversation& conversation, std::vector<std::string>& ignored) {
  if (!conversation.tools.empty()) {
    ignored.push_back("tools");
    if (conversation.tool_choice != ToolChoice::kAuto) ignored.push_back("tool_choice");
    if (!conversation.parallel_tool_calls) ignored.push_back("parallel_tool_calls");
  }
  if (conversation.response_format != ResponseFormat::kText) ignored.push_back("response_format");
}

std::shared_ptr<const wire::ScriptPlay> ChoosePlay(const Dialect& dialect,
                                                   const DecodedRequest& request,
                                                   int64_t n_prompt,
                                                   const PrepareContext& context) {
  if (context.script == nullptr) return nullptr;
  std::shared_ptr<const wire::ScriptPlay> play = context.script->Choose(dialect.name, request);
  if (play->refuse.code() != ErrorCode::kContextLength) return play;
  // Clients read both numbers and expect the first to be the larger one (spec clients.md §5).
  const int64_t n_told = std::max<int64_t>(n_prompt, int64_t{context.model.n_context} + 1);
  auto refusal = std::make_shared<wire::ScriptPlay>(*play);
  refusal->refuse = Status(
      ErrorCode::kContextLength,
      fmt::format("prompt is too long: {} tokens > {} maximum", n_told, context.model.n_context));
  return refusal;
}

}  // namespace

Result<Prepared> Prepare(const Dialect& dialect,
                         std::string_view body,
                         const PrepareContext& context) {
  SLUICE_TRY(DecodedRequest request, dialect.decode(body, context));
  const int64_t n_prompt = bytes::CountTokens(request.conversation);
  SLUICE_TRY(int32_t n_max, OutputLimit(dialect, request, n_prompt, context.model));

  Prepared prepared;
  prepared.generate.script = ChoosePlay(dialect, request, n_prompt, context);
  prepared.generate.prompt =
      std::make_shared<const std::vector<TokenId>>(bytes::Render(request.conversation));
  prepared.generate.n_max = n_max;
  prepared.generate.sampling = std::move(request.sampling);
  prepared.answer = std::move(request.answer);
  prepared.answer.start = StartOf(request.conversation);
  prepared.answer.n_prompt = static_cast<int32_t>(n_prompt);
  prepared.ignored_fields = std::move(request.ignored_fields);
  ListUnenforced(request.conversation, prepared.ignored_fields);
  if (request.thinking_budget) prepared.ignored_fields.push_back("thinking.budget_tokens");
  return prepared;
}

}  // namespace sluice::codec
