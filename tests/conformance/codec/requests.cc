// Requests: what a prompt they become, or how they are refused.

#include <fmt/format.h>

#include "conformance/codec/cases.h"

namespace sluice::conformance {
namespace {

const char* NameOf(codec::OutputStart start) {
  switch (start) {
    case codec::OutputStart::kReasoning:
      return "reasoning";
    case codec::OutputStart::kReasoningContinued:
      return "reasoning_continuation";
    case codec::OutputStart::kContent:
      return "content";
    case codec::OutputStart::kContentContinued:
      return "content_continuation";
  }
  return "";
}

const char* NameOf(codec::ImageDetail detail) {
  switch (detail) {
    case codec::ImageDetail::kAuto:
      return "auto";
    case codec::ImageDetail::kLow:
      return "low";
    case codec::ImageDetail::kHigh:
      return "high";
    case codec::ImageDetail::kOriginal:
      return "original";
  }
  return "";
}

size_t CodePoints(std::string_view text) {
  size_t n = 0;
  for (char c : text) n += (c & 0xC0) != 0x80;
  return n;
}

// The prompt's text, its control tokens by place, and its ids.
Json PromptOf(const std::vector<TokenId>& ids, const codec::deepseek_v41::Format& format) {
  std::string text;
  size_t at = 0;
  Json ranges = Json::array(), tokens = Json::array();
  for (TokenId id : ids) {
    const size_t n = CodePoints(format.text(id));
    // A token of a part of a character begins none or one.
    if (format.vocabulary().is_added(id)) ranges.push_back({at, at + n});
    at += n;
    text += format.text(id);
    tokens.push_back(id.value);
  }
  return {{"prompt_text", text}, {"special_ranges", ranges}, {"prompt_tokens", tokens}};
}

// The text of a schema with its numbers written in one way; the order of members counts.
std::string SchemaOf(const std::string& text) {
  const Json schema = Json::parse(text, nullptr, false);
  return schema.is_discarded() ? text : schema.dump();
}

// What `params` of a case may say, of what was prepared.
Json ParamsOf(const codec::Prepared& prepared, const Json& expected) {
  const wire::SamplingParams& sampling = prepared.generate.sampling;
  Json params = {
      {"thinking", prepared.answer.thinking},
      {"resolved_max_tokens", prepared.generate.n_max},
      {"temperature", sampling.temperature},
      {"top_p", sampling.top_p},
      {"logprobs", sampling.logprobs},
      {"top_logprobs", sampling.n_top_logprobs},
      {"seed", sampling.seed ? Json(*sampling.seed) : Json()},
      {"stream", prepared.answer.stream},
      {"constraint", Json()},
      {"frequency_penalty", sampling.frequency_penalty},
      {"presence_penalty", sampling.presence_penalty},
      {"top_k", sampling.top_k},
      {"n", prepared.answer.n_choices},
      {"max_calls", prepared.constraint.max_calls},
      {"thinking_budget", prepared.thinking_budget ? Json(*prepared.thinking_budget) : Json()},
      {"logit_bias", Json::object()},
  };
  if (prepared.constraint.kind != codec::Constraint::Kind::kNone) {
    params["constraint"] = {{"kind", codec::NameOf(prepared.constraint.kind)},
                            {"schema", SchemaOf(prepared.constraint.schema)}};
  }
  for (const wire::LogitBias& bias : sampling.logit_bias) {
    params["logit_bias"][fmt::to_string(bias.token.value)] = bias.bias;
  }
  // Not kept: the name of the effort is a number in the prompt, the asked limit is in the resolved.
  params["effort"] = expected["effort"];
  params["max_tokens"] = expected["max_tokens"];
  return params;
}

// The values that `params` leaves out because nothing was asked.
Json WithDefaults(Json params) {
  const Json defaults = {{"frequency_penalty", 0.0},
                         {"presence_penalty", 0.0},
                         {"top_k", 0},
                         {"n", 1},
                         {"max_calls", 0},
                         {"thinking_budget", Json()},
                         {"logit_bias", Json::object()}};
  for (const auto& [key, value] : defaults.items()) {
    if (!params.contains(key)) params[key] = value;
  }
  // Two ways to write that nothing was asked.
  if (params["top_logprobs"].is_null()) params["top_logprobs"] = 0;
  if (!params["constraint"].is_null()) {
    params["constraint"]["schema"] = SchemaOf(params["constraint"]["schema"]);
  }
  return params;
}

Json ParseOf(const codec::Prepared& prepared) {
  const codec::AnswerSpec& answer = prepared.answer;
  codec::OutputStart start = answer.start;
  // Without thinking ours keeps the line feeds of a continued text (golden
  // chat/prefix/content-plain), which the encode cases do not tell.
  if (start == codec::OutputStart::kContentContinued && !answer.thinking) {
    start = codec::OutputStart::kContent;
  }
  return {{"tool_calls", answer.parses_calls},
          {"starts_in_tool_calls", answer.starts_in_calls},
          {"json", answer.is_json},
          {"start", NameOf(start)},
          {"stop", answer.stops}};
}

Json ImagesOf(const codec::Prepared& prepared) {
  Json images = Json::array();
  for (const codec::PromptImage& image : prepared.images) {
    images.push_back({{"kind", image.image.is_url ? "url" : "data_url"},
                      {"detail", NameOf(image.image.detail)},
                      {"path", image.image.path}});
  }
  return images;
}

Json NamespacesOf(const codec::Prepared& prepared) {
  Json namespaces = Json::object();
  for (const codec::Tool& tool : prepared.answer.tools) {
    if (!tool.name_space.empty()) namespaces[tool.name] = {tool.name_space, tool.bare_name};
  }
  return namespaces;
}

// {status, type, code, param} of a refusal; code and param only where the API has them.
Json AnswerOf(const codec::Dialect& dialect, const Status& status) {
  const Json body = Json::parse(dialect.error_body(status, "req_1"));
  const Json& error = body["error"];
  Json answer = {{"status", RowOf(status.code()).http_status},
                 {"type", error["type"]},
                 {"message", error["message"]}};
  if (error.contains("code")) answer["code"] = error["code"];
  if (error.contains("param")) answer["param"] = error["param"];
  return answer;
}

Difference CompareAnswer(const Json& expected, const Json& got) {
  for (const char* key : {"status", "type", "code", "param", "message"}) {
    if (!expected.contains(key) || !got.contains(key)) continue;  // Messages has no code, no param
    Difference difference = DifferenceOf(key, expected[key], got[key]);
    if (!difference.empty()) return difference;
  }
  return "";
}

// `ours` of a reject case, where it is another answer: a text that names what differs.
Json OursOf(const Json& c) {
  Json answer = c["error"];
  if (!answer["message_binding"].get<bool>()) answer.erase("message");
  const std::string ours = c.value("ours", "");
  if (ours.starts_with("404")) answer["status"] = 404;
  if (ours.find("model_not_found") != std::string::npos) {
    answer["code"] = "model_not_found";
    answer["param"] = "model";
  }
  if (ours.find("context_length_exceeded") != std::string::npos) {
    answer["code"] = "context_length_exceeded";
  }
  return answer;
}

}  // namespace

Difference CheckEncode(const Json& c, const Suite& suite) {
  const Json ours =
      suite.profile == ProfileName::kDefault ? c.value("ours", Json::object()) : Json::object();
  const Result<codec::Prepared> prepared = PrepareBody(c, BodyOf(c), suite);
  if (ours.contains("reject")) {
    if (prepared) return "was accepted";
    return CompareAnswer(ours["reject"], AnswerOf(*DialectOf(c), prepared.error()));
  }
  if (!prepared) return "was refused: " + std::string(prepared.error().message());
  Json expected = c;
  for (const auto& [key, value] : ours.items()) {
    if (key == "params")
      expected["params"].update(value);
    else
      expected[key] = value;
  }
  Json got = PromptOf(*prepared->generate.prompt, suite.format);
  got["parse"] = ParseOf(*prepared);
  got["params"] = ParamsOf(*prepared, expected["params"]);
  got["images"] = ImagesOf(*prepared);
  got["namespaces"] = NamespacesOf(*prepared);
  expected["params"] = WithDefaults(expected["params"]);
  if (suite.profile == ProfileName::kReference) {  // has neither
    got["params"]["max_calls"] = 0;
    got["params"]["thinking_budget"] = Json();
  }
  if (!expected.contains("images")) expected["images"] = Json::array();
  if (!expected.contains("namespaces")) expected["namespaces"] = Json::object();
  for (const auto& [key, value] : got.items()) {
    Difference difference = DifferenceOf(key, expected[key], value);
    if (!difference.empty()) return difference;
  }
  return "";
}

Difference CheckReject(const Json& c, const Suite& suite) {
  const Result<codec::Prepared> prepared = PrepareBody(c, BodyOf(c), suite);
  const bool is_default = suite.profile == ProfileName::kDefault;
  if (is_default && c.value("ours", "").starts_with("accept")) {
    return prepared ? "" : "was refused: " + std::string(prepared.error().message());
  }
  if (prepared) return "was accepted";
  Json expected = c["error"];
  if (!expected["message_binding"].get<bool>()) expected.erase("message");
  if (is_default) expected = OursOf(c);
  return CompareAnswer(expected, AnswerOf(*DialectOf(c), prepared.error()));
}

}  // namespace sluice::conformance
