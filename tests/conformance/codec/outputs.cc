// Outputs: the tokens of a model as a response and as a stream, however they are cut.

#include <fmt/format.h>

#include <algorithm>

#include "codec/answer.h"
#include "conformance/codec/streams.h"
#include "wire/event.h"

namespace sluice::conformance {
namespace {

// 0: all at once.
constexpr int kSizes[] = {1, 2, 3, 5, 7, 11, 23, 0};

std::vector<TokenId> TokensOf(const Json& c, const codec::deepseek_v41::Format& format) {
  std::vector<TokenId> tokens;
  if (c.contains("output_text")) {  // a backend that gives text: its spelling decides
    format.bpe().EncodeWithAdded(c["output_text"].get<std::string>(), tokens);
    return tokens;
  }
  for (const Json& id : c["output_tokens"]) tokens.push_back(TokenId(id.get<int32_t>()));
  return tokens;
}

// `sizes`: of the events, used cyclically; then the terminal event.
std::vector<wire::TokenEvent> TokenEventsOf(const Json& c,
                                            const std::vector<TokenId>& tokens,
                                            const std::vector<int>& sizes) {
  std::vector<wire::TokenEvent> events;
  for (size_t at = 0, i = 0; at < tokens.size(); ++i) {
    size_t n = static_cast<size_t>(sizes[i % sizes.size()]);
    n = n == 0 ? tokens.size() - at : std::min(n, tokens.size() - at);
    wire::TokenEvent event;
    event.first_index = static_cast<int32_t>(at);
    for (; n > 0; --n) {
      event.tokens.push_back(tokens[at]);
      if (c.contains("output_logprobs")) {
        wire::TokenLogprob logprob{.logprob = c["output_logprobs"][at][0].get<float>()};
        for (const Json& other : c["output_logprobs"][at][1]) {
          logprob.alternatives.push_back(
              {.token = TokenId(other[0].get<int32_t>()), .logprob = other[1].get<float>()});
        }
        event.logprobs.push_back(std::move(logprob));
      }
      ++at;
    }
    events.push_back(std::move(event));
  }
  wire::TokenEvent last;
  last.end = std::make_unique<wire::EventEnd>();
  last.end->finish = c["finish"] == "length"           ? wire::FinishReason::kLength
                     : c["finish"] == "content_filter" ? wire::FinishReason::kFiltered
                                                       : wire::FinishReason::kEnd;
  last.end->usage = {.n_prompt = c["prompt_usage"]["prompt_tokens"],
                     .n_cached = c["prompt_usage"]["cached_tokens"],
                     .n_completion = static_cast<int32_t>(tokens.size())};
  events.push_back(std::move(last));
  return events;
}

struct Played {
  std::string stream;
  std::string whole;
};

std::string Play(const Json& c,
                 const codec::Prepared& prepared,
                 const std::vector<int>& sizes,
                 const Suite& suite) {
  codec::Answer answer(*DialectOf(c), suite.format, prepared.answer,
                       {.id = "ID", .created = {}, .fingerprint = "fp", .entropy = 42});
  std::string out;
  const std::vector<TokenId> tokens = TokensOf(c, suite.format);
  for (const wire::TokenEvent& event : TokenEventsOf(c, tokens, sizes)) {
    wire::TokenEvent first;  // the prompt's usage is known before any token
    if (event.first_index == 0 && !event.end) {
      first.n_cached = c["prompt_usage"]["cached_tokens"];
      answer.OnEvent(0, first, out);
    }
    answer.OnEvent(0, event, out);
  }
  answer.Finish(out);
  return out;
}

// Usage of the prompt is the case's, whatever the prompt of the request is.
codec::Prepared WithUsage(codec::Prepared prepared, const Json& c) {
  prepared.answer.n_prompt = c["prompt_usage"]["prompt_tokens"];
  return prepared;
}

Result<codec::Prepared> PrepareAs(const Json& c, bool stream, const Suite& suite) {
  Json request = c["request"];
  request["stream"] = stream;
  if (!stream) request.erase("stream_options");
  SLUICE_TRY(codec::Prepared prepared, PrepareBody(c, request.dump(), suite));
  return WithUsage(std::move(prepared), c);
}

// How many of the tokens ours counts: those before the end of sentence, and up to what ends the
// answer: the case's own count where it is a stop string, the end of the calls.
int64_t CompletionOf(const Json& c, const codec::deepseek_v41::Format& format, int64_t told) {
  const std::vector<TokenId> tokens = TokensOf(c, format);
  const bool has_stops = c["request"].contains("stop") || c["request"].contains("stop_sequences");
  if (has_stops && told < std::ssize(tokens)) return told;
  std::string text;
  const TokenId end = format.control(codec::deepseek_v41::Control::kEnd);
  const TokenId markup = format.control(codec::deepseek_v41::Control::kDsml);
  bool in_calls = false;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] == end) return static_cast<int64_t>(i);
    if (tokens[i] == markup) {
      const bool opens = text.ends_with('<') && i + 1 < tokens.size();
      in_calls = in_calls || (opens && format.text(tokens[i + 1]) != " means");
      text += '\1';
      continue;
    }
    text += format.vocabulary().is_added(tokens[i]) ? "" : format.text(tokens[i]);
    for (const char* close : {"</\1 calls>", "</\1tool_calls>"}) {
      if (in_calls && text.find(close) != std::string::npos) return static_cast<int64_t>(i) + 1;
    }
  }
  return std::ssize(tokens);
}

// Replaces counts of output tokens wherever they stand.
void SetCounts(Json& value, int64_t n_completion, bool drop) {
  if (!value.is_object() && !value.is_array()) return;
  for (auto& [key, member] : value.items()) SetCounts(member, n_completion, drop);
  if (!value.is_object()) return;
  for (const char* key : {"completion_tokens", "output_tokens"}) {
    if (!value.contains(key) || !value[key].is_number()) continue;
    const int64_t before = value[key];
    if (before == 0) continue;  // of a stream's beginning
    value[key] = drop ? 1 : n_completion;
    if (value.contains("total_tokens")) {
      value["total_tokens"] =
          drop ? 1 : value["total_tokens"].get<int64_t>() - before + n_completion;
    }
  }
}

// Ours with include_usage: a chunk of its own behind the last one.
Json WithUsageChunk(Json events, const Json& c) {
  const Json options = c["request"].value("stream_options", Json::object());
  if (c["api"] != "chat" || !options.value("include_usage", false)) return events;
  events.push_back({{"usage", events.back()["usage"]}});
  events[events.size() - 2]["usage"] = nullptr;
  return events;
}

// A case of the reference that was not a stream has `usage: null` in its chunks.
Json WithoutNullUsage(Json events, const Json& c) {
  if (c["request"].contains("stream_options")) return events;
  for (Json& event : events) {
    if (event.contains("usage") && event["usage"].is_null()) event.erase("usage");
  }
  return events;
}

struct Expected {
  Json response;
  Json events;
  Json neutral;
  bool is_ours = false;  // only `neutral` is told
};

Expected ExpectedOf(const Json& c, const Suite& suite) {
  const std::string api = c["api"];
  Expected expected{.response = c["response"], .events = WithoutNullUsage(c["events"], c)};
  expected.neutral = NeutralOf(api, expected.response);
  const bool drop = c.contains("output_text");
  if (suite.profile == ProfileName::kReference) {
    if (drop) {
      SetCounts(expected.response, 0, true);
      SetCounts(expected.events, 0, true);
    }
    return expected;
  }
  const Json ours = c.value("ours", Json::object());
  for (const auto& [key, value] : ours.items()) expected.neutral[key] = value;
  expected.is_ours = !ours.empty();
  const Json& usage = c["response"]["usage"];
  const int64_t told = usage.contains("completion_tokens")
                           ? usage["completion_tokens"].get<int64_t>()
                           : usage["output_tokens"].get<int64_t>();
  const int64_t n = CompletionOf(c, suite.format, told);
  SetCounts(expected.response, n, drop);
  SetCounts(expected.events, n, drop);
  expected.events = WithUsageChunk(expected.events, c);
  return expected;
}

// The tool inputs of Messages are values; `ours` tells their text.
Json ComparableNeutral(Json neutral) {
  if (!neutral.contains("calls")) return neutral;
  for (Json& call : neutral["calls"]) {
    if (!call[1].is_string()) continue;
    const Json parsed = Json::parse(call[1].get<std::string>(), nullptr, false);
    if (!parsed.is_discarded()) call[1] = parsed;
  }
  return neutral;
}

Difference Compare(const Json& c, const Expected& expected, const Played& played) {
  const std::string api = c["api"];
  Json response = ResponseOf(api, played.whole);
  Json events = EventsOf(api, played.stream);
  const Json neutral = NeutralOf(api, response);
  Difference difference =
      DifferenceOf("answer", ComparableNeutral(expected.neutral), ComparableNeutral(neutral));
  if (!difference.empty() || expected.is_ours) return difference;
  if (c.contains("output_text")) {
    SetCounts(response, 0, true);
    SetCounts(events, 0, true);
  }
  difference = DifferenceOf("response", expected.response, response);
  if (!difference.empty()) return difference;
  difference = DifferenceOf("events", expected.events, events);
  if (!difference.empty() || !c.contains("response_object")) return difference;
  return DifferenceOf("response_object", c["response_object"], ObjectOf(played.whole));
}

// The stream of `ours` says the same as the whole answer: texts and arguments joined.
std::string JoinedText(const Json& value) {
  std::string text;
  if (value.is_object()) {
    for (const auto& [key, member] : value.items()) {
      const bool is_text = key == "content" || key == "reasoning_content" || key == "arguments" ||
                           key == "text" || key == "thinking" || key == "partial_json";
      text += is_text && member.is_string() ? member.get<std::string>() : JoinedText(member);
    }
  } else if (value.is_array()) {
    for (const Json& element : value) text += JoinedText(element);
  }
  return text;
}

Difference CompareStream(const Json& c, const Expected& expected, const Played& played) {
  if (!expected.is_ours || c["api"] != "chat") return "";
  Json neutral = expected.neutral;
  std::string text = neutral["reasoning"].get<std::string>();
  text += neutral["content"].get<std::string>();
  for (const Json& call : neutral["calls"]) text += call[1].get<std::string>();
  return DifferenceOf("stream", text, JoinedText(EventsOf("chat", played.stream)));
}

bool DependsOnCuts(const Json& c, ProfileName profile) {
  return profile == ProfileName::kReference && c["same_for_chunkings"].size() < 5;
}

}  // namespace

Difference CheckDecode(const Json& c, const Suite& suite) {
  const Result<codec::Prepared> stream = PrepareAs(c, true, suite);
  const Json ours =
      suite.profile == ProfileName::kDefault ? c.value("ours", Json::object()) : Json::object();
  if (ours.contains("reject")) {
    if (stream) return "was accepted";
    return DifferenceOf("code", ours["reject"]["code"], stream.error().api_code());
  }
  if (!stream) return "was refused: " + std::string(stream.error().message());
  const Result<codec::Prepared> whole = PrepareAs(c, false, suite);
  if (!whole) return "was refused: " + std::string(whole.error().message());

  const Expected expected = ExpectedOf(c, suite);
  std::vector<std::vector<int>> cuts = {c["chunking"].get<std::vector<int>>()};
  if (!DependsOnCuts(c, suite.profile)) {
    for (int size : kSizes) cuts.push_back({size});
  }
  for (const std::vector<int>& sizes : cuts) {
    const Played played{.stream = Play(c, *stream, sizes, suite),
                        .whole = Play(c, *whole, sizes, suite)};
    Difference difference = Compare(c, expected, played);
    if (difference.empty()) difference = CompareStream(c, expected, played);
    if (!difference.empty()) return fmt::format("cut by {}: {}", sizes[0], difference);
  }
  return "";
}

}  // namespace sluice::conformance
