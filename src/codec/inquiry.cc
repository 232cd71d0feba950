// The inquiries, one line each; serve takes their routes from here.

#include "codec/inquiry.h"

#include <fmt/format.h>

#include "base/json_writer.h"
#include "base/utf8.h"
#include "codec/tokenize.h"

namespace sluice::codec {
namespace {

Result<InquiryAnswer> CountTokens(const Dialect& dialect,
                                  std::string_view body,
                                  const PrepareContext& context) {
  SLUICE_TRY(Prepared prepared, Prepare(dialect, body, context));
  InquiryAnswer answer;
  JsonWriter w(answer.body);
  w.Object().Key("input_tokens").Int(prepared.answer.n_prompt).EndObject();
  answer.ignored_fields = std::move(prepared.ignored_fields);
  return answer;
}

// Of Completions a list, in which vLLM has an element for each prompt.
Result<InquiryAnswer> Render(const Dialect& dialect,
                             std::string_view body,
                             const PrepareContext& context) {
  SLUICE_TRY(Prepared prepared, Prepare(dialect, body, context));
  const std::string object = RenderJson(prepared, context);
  const bool is_list = dialect.api == Api::kCompletions;
  return InquiryAnswer{.body = is_list ? '[' + object + ']' : object,
                       .ignored_fields = std::move(prepared.ignored_fields)};
}

void WriteSampling(const Prepared& prepared, JsonWriter& w) {
  const wire::SamplingParams& sampling = prepared.generate.sampling;
  w.Object().Key("n").Int(prepared.answer.n_choices);
  w.Key("max_tokens").Int(prepared.generate.n_max);
  w.Key("temperature").Double(sampling.temperature).Key("top_p").Double(sampling.top_p);
  w.Key("top_k").Int(sampling.top_k).Key("min_p").Double(sampling.min_p);
  w.Key("presence_penalty").Double(sampling.presence_penalty);
  w.Key("frequency_penalty").Double(sampling.frequency_penalty);
  w.Key("repetition_penalty").Double(sampling.repetition_penalty);
  w.Key("min_tokens").Int(sampling.n_min);
  w.Key("seed");
  sampling.seed ? w.Uint(*sampling.seed) : w.Null();
  w.Key("stop").Array();
  for (const std::string& stop : prepared.answer.stops) w.String(stop);
  w.EndArray().Key("stop_token_ids").Array();
  for (const TokenId id : prepared.generate.stop_ids) w.Int(id.value);
  w.EndArray().Key("logprobs");
  sampling.logprobs ? w.Int(sampling.n_top_logprobs) : w.Null();
  w.Key("prompt_logprobs");
  sampling.n_prompt_logprobs ? w.Int(*sampling.n_prompt_logprobs) : w.Null();
  w.Key("logit_bias").Object();
  for (const wire::LogitBias& bias : sampling.logit_bias) {
    w.Key(fmt::to_string(bias.token.value)).Double(static_cast<double>(bias.bias));
  }
  w.EndObject().EndObject();
}

void WriteConstraint(const Constraint& constraint, JsonWriter& w) {
  if (constraint.kind == Constraint::Kind::kNone) {
    w.Null();
    return;
  }
  w.Object().Key("type").String(NameOf(constraint.kind)).Key("schema");
  const bool is_json = constraint.kind != Constraint::Kind::kRegex;
  if (constraint.schema.empty()) {
    w.Null();
  } else {
    is_json ? w.Raw(constraint.schema) : w.String(constraint.schema);
  }
  w.Key("max_calls");
  constraint.max_calls > 0 ? w.Int(constraint.max_calls) : w.Null();
  w.EndObject();
}

constexpr const char* kCountPaths[] = {"/v1/messages/count_tokens",
                                       "/anthropic/v1/messages/count_tokens"};
constexpr const char* kTokenizePaths[] = {"/tokenize", "/v1/tokenize"};
constexpr const char* kDetokenizePaths[] = {"/detokenize", "/v1/detokenize"};
// Below the paths of each dialect.
constexpr const char* kChatPaths[] = {"/v1/chat/completions/render", "/chat/completions/render",
                                      "/beta/chat/completions/render"};
constexpr const char* kMessagesPaths[] = {"/v1/messages/render", "/anthropic/v1/messages/render"};
constexpr const char* kCompletionsPaths[] = {"/v1/completions/render", "/completions/render",
                                             "/beta/completions/render"};
constexpr const char* kResponsesPaths[] = {"/v1/responses/render", "/responses/render"};

constexpr Inquiry kInquiries[] = {
    {Inquiry::Kind::kCountTokens, Api::kMessages, kCountPaths, &CountTokens},
    {Inquiry::Kind::kTokenize, Api::kChat, kTokenizePaths, &Tokenize},
    {Inquiry::Kind::kDetokenize, Api::kChat, kDetokenizePaths, &Detokenize},
    {Inquiry::Kind::kRender, Api::kChat, kChatPaths, &Render},
    {Inquiry::Kind::kRender, Api::kMessages, kMessagesPaths, &Render},
    {Inquiry::Kind::kRender, Api::kCompletions, kCompletionsPaths, &Render},
    {Inquiry::Kind::kRender, Api::kResponses, kResponsesPaths, &Render},
};

}  // namespace

std::span<const Inquiry> Inquiries() { return kInquiries; }

std::string RenderJson(const Prepared& prepared, const PrepareContext& context) {
  const std::vector<TokenId>& ids = *prepared.generate.prompt;
  std::string text;
  JsonWriter w(text);
  w.Object().Key("model").String(context.model.name);
  w.Key("count").Int(std::ssize(ids));
  w.Key("max_model_len").Int(context.model.n_context);
  w.Key("prompt").String(TextOf(ids, context.format));
  w.Key("token_ids");
  WriteIds(ids, w);
  w.Key("token_strs");
  WriteTokenNames(ids, context.format, w);
  w.Key("image_positions").Array();
  for (const PromptImage& image : prepared.images) w.Int(image.pos);
  w.EndArray().Key("thinking").Bool(prepared.answer.thinking);
  w.Key("thinking_budget");
  prepared.thinking_budget ? w.Int(*prepared.thinking_budget) : w.Null();
  w.Key("sampling_params");
  WriteSampling(prepared, w);
  w.Key("constraint");
  WriteConstraint(prepared.constraint, w);
  w.Key("ignored_fields").Array();
  for (const std::string& name : prepared.ignored_fields) w.String(name);
  w.EndArray().EndObject();
  return text;
}

std::string TextOf(std::span<const TokenId> ids, Format format) {
  std::string bytes;
  for (const TokenId id : ids) bytes += format.text(id);
  std::string text;
  AppendValidUtf8(text, bytes);
  return text;
}

}  // namespace sluice::codec
