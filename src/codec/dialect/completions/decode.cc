// hop 2 of 10: after ReadRequest, before Submit.
//
// Decode reads a legacy Completions body: a prompt as it is, without a template, maybe with a
// suffix. Field by field what dialect/completions/schema.md says; the order of checks is that of
// Chat.

#include "codec/dialect/completions/decode.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/json.h"
#include "base/limits.h"
#include "base/utf8.h"
#include "codec/dialect/completions/prompt.h"
#include "codec/dialect/field.h"
#include "codec/dialect/field_table.h"
#include "codec/dialect/request_check.h"
#include "codec/dialect/sampling.h"

namespace sluice::codec::completions {
namespace {

// The fields, types checked and nothing else. The views live as long as the request's JSON.
struct Body {
  std::optional<std::string_view> model;
  JsonValue prompt;
  std::optional<std::string_view> suffix;
  std::optional<bool> echo;
  std::optional<uint64_t> max_tokens;
  std::optional<double> temperature;
  std::optional<double> top_p;
  std::optional<double> frequency_penalty;
  std::optional<double> presence_penalty;
  std::optional<uint64_t> seed;
  std::optional<uint64_t> n;
  std::optional<uint64_t> best_of;
  std::optional<uint64_t> logprobs;
  JsonValue logit_bias;
  RawSamplerFields sampler;
  RawStops stop;
  RawStream stream;
  std::optional<std::string_view> user;
  std::vector<std::string> unknown_fields;
};

Status KeepPrompt(const JsonValue& value, Body& body) {
  body.prompt = value;
  return Status::Ok();
}

Status KeepLogitBias(const JsonValue& value, Body& body) {
  body.logit_bias = value;
  return value.is_object() ? Status::Ok()
                           : Named(WrongValue("logit_bias", "an object", value), "logit_bias");
}

// Sorted by name.
constexpr Field<Body> kFields[] = {
    {"best_of", [](const JsonValue& v, Body& b) { return ReadUint("best_of", v, b.best_of); }},
    {"echo", [](const JsonValue& v, Body& b) { return ReadBool("echo", v, b.echo); }},
    {"frequency_penalty",
     [](const JsonValue& v, Body& b) {
       return ReadNumber("frequency_penalty", v, b.frequency_penalty);
     }},
    {"logit_bias", KeepLogitBias},
    {"logprobs", [](const JsonValue& v, Body& b) { return ReadUint("logprobs", v, b.logprobs); }},
    {"max_tokens",
     [](const JsonValue& v, Body& b) { return ReadUint("max_tokens", v, b.max_tokens); }},
    {"min_p",
     [](const JsonValue& v, Body& b) {
       b.sampler.min_p = v;
       return Status::Ok();
     }},
    {"min_tokens",
     [](const JsonValue& v, Body& b) {
       b.sampler.min_tokens = v;
       return Status::Ok();
     }},
    {"model", [](const JsonValue& v, Body& b) { return ReadString("model", v, b.model); }},
    {"n", [](const JsonValue& v, Body& b) { return ReadUint("n", v, b.n); }},
    {"presence_penalty",
     [](const JsonValue& v, Body& b) {
       return ReadNumber("presence_penalty", v, b.presence_penalty);
     }},
    {"prompt", KeepPrompt},
    {"prompt_logprobs",
     [](const JsonValue& v, Body& b) {
       b.sampler.prompt_logprobs = v;
       return Status::Ok();
     }},
    {"repetition_penalty",
     [](const JsonValue& v, Body& b) {
       b.sampler.repetition_penalty = v;
       return Status::Ok();
     }},
    {"seed", [](const JsonValue& v, Body& b) { return ReadUint("seed", v, b.seed); }},
    {"stop", [](const JsonValue& v, Body& b) { return ReadStopField("stop", v, b.stop); }},
    {"stop_token_ids",
     [](const JsonValue& v, Body& b) {
       b.sampler.stop_token_ids = v;
       return Status::Ok();
     }},
    {"stream", [](const JsonValue& v, Body& b) { return ReadBool("stream", v, b.stream.on); }},
    {"stream_options", [](const JsonValue& v, Body& b) { return ReadStreamOptions(v, b.stream); }},
    {"suffix", [](const JsonValue& v, Body& b) { return ReadString("suffix", v, b.suffix); }},
    {"temperature",
     [](const JsonValue& v, Body& b) { return ReadNumber("temperature", v, b.temperature); }},
    {"top_p", [](const JsonValue& v, Body& b) { return ReadNumber("top_p", v, b.top_p); }},
    {"user",
     [](const JsonValue& v, Body& b) { return Named(ReadString("user", v, b.user), "user"); }},
};
static_assert(std::ranges::is_sorted(kFields, {}, &Field<Body>::name));

Status ReadBody(const JsonValue& root, bool strict, Body& body) {
  SLUICE_TRY(ReadFields(root, kFields, strict, body));
  if (!body.model) return Missing("model", "a string");
  if (!body.prompt.exists())
    return Named(Missing("prompt", "a string or a list of token ids"), "prompt");
  return Status::Ok();
}

Status ReadEchoOfIds(const std::vector<TokenId>& ids, Format format, std::string& echo) {
  std::string bytes;
  for (const TokenId id : ids) {
    bytes += format.text(id);
    if (std::ssize(bytes) <= limits::kMaxHeldAnswerBytes) continue;
    return Status::InvalidField(
        "echo",
        fmt::format("the text of `prompt` has more than {} bytes, which `echo` may not have",
                    limits::kMaxHeldAnswerBytes));
  }
  AppendValidUtf8(echo, bytes);
  return Status::Ok();
}

// What of the prompt comes back, and what cannot be combined with it. With `logprobs` it comes with
// its scores, token by token.
Status ReadEcho(const Body& body, const PrepareContext& context, DecodedRequest& request) {
  if (!body.echo.value_or(false)) return Status::Ok();
  const RawPrompt& prompt = *request.conversation.raw;
  if (prompt.suffix) return Status::InvalidField("echo", "`echo` cannot be used with `suffix`");
  request.answer.prompt_scores.in_echo = body.logprobs.has_value();
  if (body.logprobs) return Status::Ok();
  if (!prompt.ids.empty()) return ReadEchoOfIds(prompt.ids, context.format, request.answer.echo);
  request.answer.echo = prompt.text;
  return Status::Ok();
}

Status ReadLogprobs(const Body& body, DecodedRequest& request) {
  if (!body.logprobs) return Status::Ok();
  if (*body.logprobs > limits::kMaxTopLogprobs) {
    return Status::InvalidField(
        "logprobs", fmt::format("Invalid logprobs value {}, the valid range of logprobs is [0, {}]",
                                *body.logprobs, limits::kMaxTopLogprobs));
  }
  request.answer.logprobs = true;
  request.answer.n_top_logprobs = static_cast<int32_t>(*body.logprobs);
  request.sampling.logprobs = true;
  request.sampling.n_top_logprobs = request.answer.n_top_logprobs;
  if (request.answer.prompt_scores.in_echo) {
    request.sampling.n_prompt_logprobs = request.answer.n_top_logprobs;
  }
  return Status::Ok();
}

Status ReadNumbers(const Body& body, const PrepareContext& context, DecodedRequest& request) {
  wire::SamplingParams& sampling = request.sampling;
  SLUICE_TRY(ReadChoices(body.n, context.profile, request.answer.n_choices));
  if (body.best_of && *body.best_of != static_cast<uint64_t>(request.answer.n_choices)) {
    return Status::InvalidField(
        "best_of", fmt::format("`best_of` is {}, but must equal `n` ({}): no best is chosen here",
                               *body.best_of, request.answer.n_choices));
  }
  SLUICE_TRY(ReadPenalty("presence_penalty", body.presence_penalty, sampling.presence_penalty));
  SLUICE_TRY(ReadPenalty("frequency_penalty", body.frequency_penalty, sampling.frequency_penalty));
  SLUICE_TRY(ReadTemperature(body.temperature, sampling.temperature));
  SLUICE_TRY(ReadTopP(body.top_p, sampling.top_p));
  SLUICE_TRY(ReadLogprobs(body, request));
  const bool in_echo = request.answer.prompt_scores.in_echo;
  SLUICE_TRY(CheckOutputLimit("max_tokens", body.max_tokens, context.model,
                              in_echo || AsksForScores(body.sampler, context.profile)));
  if (body.max_tokens) request.n_max_asked = static_cast<int32_t>(*body.max_tokens);
  SLUICE_TRY(CheckSeed(body.seed));
  sampling.seed = body.seed;
  SLUICE_TRY(ReadLogitBias(body.logit_bias, context.format.n_tokens(), sampling.logit_bias));
  SLUICE_TRY(ReadSamplerFields(body.sampler, context, request));
  // Clients that sum the prompt's scores cut one generated token off the end of the list (lm-eval's
  // `local-completions`, which asks for one): there must be one.
  if (in_echo && request.n_max_asked != 0) sampling.n_min = std::max(sampling.n_min, 1);
  return Status::Ok();
}

Status Convert(const Body& body, const PrepareContext& context, DecodedRequest& request) {
  SLUICE_TRY(CheckModel(*body.model, context));
  request.answer.model = *body.model;
  request.conversation.thinking = false;
  request.answer.thinking = false;
  RawPrompt& prompt = request.conversation.raw.emplace();
  SLUICE_TRY(ReadPrompt(body.prompt, context.format.n_tokens(), prompt));
  if (body.suffix && !body.suffix->empty()) {
    if (!context.format.fills_in()) {
      return Status::InvalidField(
          "suffix", "`suffix` cannot be used: this model does not fill in the middle");
    }
    if (!prompt.ids.empty())
      return Status::InvalidField("suffix", "`suffix` needs a `prompt` of text, not of token ids");
    prompt.suffix = std::string(*body.suffix);
  }
  SLUICE_TRY(ReadEcho(body, context, request));
  SLUICE_TRY(CheckStops("stop", body.stop, request.answer.stops));
  SLUICE_TRY(TakeStream(body.stream, request.answer));
  SLUICE_TRY(ReadNumbers(body, context, request));
  SLUICE_TRY(CheckUser(body.user));
  request.user = body.user.value_or("");
  return Status::Ok();
}

}  // namespace

Result<DecodedRequest> Decode(std::string_view body, const PrepareContext& context) {
  Result<Json> json = Json::Parse(body);
  if (!json) return std::move(json.error().AddContext("invalid JSON request"));
  Body fields;
  SLUICE_TRY(ReadBody(json->root(), context.strict, fields));
  DecodedRequest request{.sampling = context.format.sampling()};
  SLUICE_TRY(Convert(fields, context, request));
  request.ignored_fields = std::move(fields.unknown_fields);
  return request;
}

}  // namespace sluice::codec::completions
