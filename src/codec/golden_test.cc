// The golden cases of testdata/ (its README says where they come from), through the codec's doors.

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "codec/answer.h"
#include "codec/dialect.h"

namespace sluice::codec {
namespace {

using nlohmann::json;

std::vector<json> Cases(const std::string& file) {
  std::ifstream in(std::string(SLUICE_SOURCE_DIR) + "/src/codec/testdata/" + file);
  EXPECT_TRUE(in.is_open()) << file;
  std::vector<json> cases;
  for (std::string line; std::getline(in, line);) cases.push_back(json::parse(line));
  EXPECT_FALSE(cases.empty()) << file;
  return cases;
}

std::string FromBase64(const std::string& text) {
  const std::string alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  uint32_t bits = 0;
  int n_bits = 0;
  for (char c : text) {
    if (c == '=') break;
    bits = bits << 6 | static_cast<uint32_t>(alphabet.find(c));
    n_bits += 6;
    if (n_bits >= 8) out += static_cast<char>(bits >> (n_bits -= 8));
  }
  return out;
}

std::string BodyOf(const json& c) {
  if (c.contains("request_raw")) return c["request_raw"];
  if (c.contains("request_base64")) return FromBase64(c["request_base64"]);
  return c["request"].dump();
}

ModelCard CardOf(const json& c) {
  ModelCard card{.name = "deepseek-flash", .aliases = {"DeepSeek-V4-Pro", "DeepSeek-V4.1-Flash"}};
  card.n_vocabulary = 129'280;
  if (c.contains("options"))
    card.n_output_max = c["options"].value("max_tokens_bound", card.n_output_max);
  card.n_context = c.value("context_limit", card.n_context);
  return card;
}

Result<Prepared> PrepareCase(const json& c) {
  ModelCard card = CardOf(c);
  bool default_thinking = !c.contains("options") || c["options"].value("default_thinking", true);
  return Prepare(Dialects()[0], BodyOf(c), {.model = card, .default_thinking = default_thinking});
}

TEST(Golden, RefusedRequestsAreRefusedWithTheReferencesWords) {
  // The switch missing_reasoning = reject is not built.
  const std::set<std::string> not_met = {"chat/reasoning/missing-rejected"};
  for (const json& c : Cases("reject.jsonl")) {
    const std::string name = c["name"];
    SCOPED_TRACE(name);
    if (not_met.contains(name)) continue;
    const std::string ours = c.value("ours", "");
    Result<Prepared> prepared = PrepareCase(c);
    if (ours.starts_with("accept")) {
      EXPECT_TRUE(prepared) << prepared.status().ToString();
      continue;
    }
    ASSERT_FALSE(prepared);
    const Status& status = prepared.error();
    const json body = json::parse(Dialects()[0].error_body(status, "r"))["error"];
    const bool is_model = ours.starts_with("404");
    const bool is_context = c.contains("context_limit");
    EXPECT_EQ(RowOf(status.code()).http_status, is_model ? 404 : 400);
    EXPECT_EQ(body["type"], c["error"]["type"]);
    EXPECT_EQ(body["code"], is_model     ? json("model_not_found")
                            : is_context ? json("context_length_exceeded")
                                         : c["error"]["code"]);
    EXPECT_EQ(body["param"], is_model ? json("model") : c["error"]["param"]) << status.ToString();
    // The numbers of the context check are tokens of another vocabulary.
    if (c["error"]["message_binding"].get<bool>() && !is_context) {
      EXPECT_EQ(body["message"], c["error"]["message"]);
    }
    EXPECT_LT(status.message().size(), 600u);
  }
}

TEST(Golden, GoodRequestsAreAccepted) {
  for (const json& c : Cases("accept.jsonl")) {
    Result<Prepared> prepared = PrepareCase(c);
    EXPECT_TRUE(prepared) << c["name"] << ": " << prepared.status().ToString();
  }
}

OutputStart StartNamed(const std::string& name) {
  if (name == "reasoning") return OutputStart::kReasoning;
  if (name == "reasoning_continuation") return OutputStart::kReasoningContinued;
  if (name == "content_continuation") return OutputStart::kContentContinued;
  return OutputStart::kContent;
}

TEST(Golden, SamplingValuesAndLimitsAreResolved) {
  for (const json& c : Cases("params.jsonl")) {
    const std::string name = c["name"];
    SCOPED_TRACE(name);
    Result<Prepared> prepared = PrepareCase(c);
    ASSERT_TRUE(prepared) << prepared.status().ToString();
    json params = c["params"];
    if (c.contains("ours") && c["ours"].contains("params")) params.update(c["ours"]["params"]);
    const wire::SamplingParams& sampling = prepared->generate.sampling;
    EXPECT_EQ(prepared->answer.thinking, params["thinking"].get<bool>());
    EXPECT_EQ(prepared->answer.stream, params["stream"].get<bool>());
    EXPECT_EQ(prepared->generate.n_max, params["resolved_max_tokens"].get<int32_t>());
    EXPECT_EQ(sampling.temperature, params["temperature"].get<double>());
    EXPECT_EQ(sampling.top_p, params["top_p"].get<double>());
    EXPECT_EQ(sampling.frequency_penalty, params.value("frequency_penalty", 0.0));
    EXPECT_EQ(sampling.presence_penalty, params.value("presence_penalty", 0.0));
    EXPECT_EQ(sampling.logprobs, params["logprobs"].get<bool>());
    EXPECT_EQ(sampling.n_top_logprobs,
              params["top_logprobs"].is_null() ? 0 : params["top_logprobs"].get<int32_t>());
    EXPECT_EQ(sampling.seed.has_value(), !params["seed"].is_null());
    EXPECT_EQ(sampling.seed.value_or(0),
              params["seed"].is_null() ? 0 : params["seed"].get<uint64_t>());
    EXPECT_EQ(sampling.logit_bias.size(),
              params.contains("logit_bias") ? params["logit_bias"].size() : 0u);
    // Deviation on purpose, golden chat/prefix/content-plain: without thinking a continued text
    // keeps its line feeds.
    const bool is_plain_prefix =
        name.starts_with("chat/prefix/") && name.ends_with("/plain") &&
        !c["request"]["messages"].back()["content"].get<std::string>().empty();
    EXPECT_EQ(prepared->answer.start, is_plain_prefix ? OutputStart::kContentContinued
                                                      : StartNamed(c["start"].get<std::string>()));
  }
}

// One event per entry of `sizes` (bytes, used cyclically, 0: the rest), then the terminal event.
std::vector<wire::TokenEvent> EventsOf(const json& c, const std::vector<int>& sizes) {
  std::vector<wire::TokenEvent> events;
  const std::string text = c["output_text"];
  for (size_t at = 0, i = 0; at < text.size(); ++i) {
    size_t n = static_cast<size_t>(sizes[i % sizes.size()]);
    if (n == 0) n = text.size();
    wire::TokenEvent event;
    event.first_index = static_cast<int32_t>(at);
    for (; n > 0 && at < text.size(); --n, ++at)
      event.tokens.push_back(TokenId(static_cast<uint8_t>(text[at])));
    events.push_back(std::move(event));
  }
  wire::TokenEvent last;
  last.end = std::make_unique<wire::EventEnd>();
  last.end->finish =
      c["finish"] == "length" ? wire::FinishReason::kLength : wire::FinishReason::kEnd;
  last.end->usage = {.n_prompt = c["prompt_usage"]["prompt_tokens"],
                     .n_cached = c["prompt_usage"]["cached_tokens"],
                     .n_completion = static_cast<int32_t>(text.size())};
  events.push_back(std::move(last));
  return events;
}

std::string Play(const json& c, const std::vector<int>& sizes, bool stream) {
  json request = c["request"];
  request["stream"] = stream;
  if (!stream) request.erase("stream_options");
  Result<Prepared> prepared = Prepare(Dialects()[0], request.dump(), {.model = CardOf(c)});
  EXPECT_TRUE(prepared) << prepared.status().ToString();
  Answer answer(Dialects()[0], prepared->answer, {.id = "id", .created = {}, .fingerprint = "fp"});
  std::string out;
  for (const wire::TokenEvent& event : EventsOf(c, sizes)) answer.OnEvent(0, event, out);
  answer.Finish(out);
  return out;
}

// Tokens of the real vocabulary are not bytes.
json WithoutCounts(json usage) {
  if (!usage.is_object()) return usage;
  usage.erase("completion_tokens");
  usage.erase("total_tokens");
  if (usage.contains("completion_tokens_details"))
    usage["completion_tokens_details"].erase("reasoning_tokens");
  return usage;
}

json Expected(const json& c, json message) {
  if (c.contains("ours") && c["ours"].contains("content"))
    message["content"] = c["ours"]["content"];
  return message;
}

// The stream as the goldens write it: adjacent deltas of one kind joined, nulls of the frame left
// out.
std::vector<json> JoinedEvents(const std::string& stream) {
  std::vector<json> joined;
  size_t at = 0;
  while (at < stream.size()) {
    size_t end = stream.find("\n\n", at);
    EXPECT_TRUE(stream.compare(at, 6, "data: ") == 0 && end != std::string::npos);
    std::string data = stream.substr(at + 6, end - at - 6);
    at = end + 2;
    if (data == "[DONE]") {
      EXPECT_EQ(at, stream.size());
      break;
    }
    json chunk = json::parse(data);
    if (chunk["choices"].empty()) {
      joined.push_back({{"usage", WithoutCounts(chunk["usage"])}});
      continue;
    }
    json event = {{"delta", chunk["choices"][0]["delta"]}};
    if (!chunk["choices"][0]["finish_reason"].is_null())
      event["finish_reason"] = chunk["choices"][0]["finish_reason"];
    if (chunk.contains("usage")) event["usage"] = WithoutCounts(chunk["usage"]);
    auto is_text = [](const json& e, const char* field) {
      return e["delta"].contains(field) && e["delta"][field].is_string() &&
             !e["delta"].contains("role");
    };
    bool merged = false;
    for (const char* field : {"content", "reasoning_content"}) {
      if (joined.empty() || event.contains("finish_reason") || !is_text(event, field) ||
          !is_text(joined.back(), field))
        continue;
      std::string text = joined.back()["delta"][field].get<std::string>() +
                         event["delta"][field].get<std::string>();
      joined.back()["delta"][field] = text;
      merged = true;
    }
    if (!merged) joined.push_back(event);
  }
  return joined;
}

std::vector<json> ExpectedEvents(const json& c) {
  std::vector<json> events;
  const bool has_chunk = c["request"].contains("stream_options");
  for (json event : c["events"]) {
    // Only a request for a usage chunk brings `usage: null`, whatever the reference did without
    // `stream`.
    if (!has_chunk && event.contains("usage") && event["usage"].is_null()) event.erase("usage");
    if (event.contains("usage")) event["usage"] = WithoutCounts(event["usage"]);
    if (event["delta"].contains("content") && c.contains("ours") &&
        !event["delta"].contains("role") && !event.contains("finish_reason")) {
      event["delta"] = Expected(c, event["delta"]);
    }
    events.push_back(event);
  }
  if (has_chunk) {
    events.push_back({{"usage", events.back()["usage"]}});
    events[events.size() - 2]["usage"] = nullptr;
  }
  return events;
}

TEST(Golden, OutputBecomesTheExpectedResponseAndStreamHoweverItIsCut) {
  for (const json& c : Cases("decode.jsonl")) {
    for (const std::vector<int>& sizes : {std::vector<int>{1}, {2}, {3}, {5, 1}, {7, 2, 1}, {0}}) {
      SCOPED_TRACE(c["name"].get<std::string>() + " cut " + std::to_string(sizes[0]));
      json response = json::parse(Play(c, sizes, false));
      EXPECT_EQ(response["choices"][0]["message"], Expected(c, c["response"]["message"]));
      EXPECT_EQ(response["choices"][0]["finish_reason"], c["response"]["finish_reason"]);
      EXPECT_EQ(WithoutCounts(response["usage"]), WithoutCounts(c["response"]["usage"]));
      EXPECT_EQ(JoinedEvents(Play(c, sizes, true)), ExpectedEvents(c));
    }
  }
}

}  // namespace
}  // namespace sluice::codec
