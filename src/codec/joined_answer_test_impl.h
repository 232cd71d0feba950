// Requests of each API for tests, and what their answers say, streamed or whole, in one form: so
// that a test can ask the same of every API.

#pragma once

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "codec/answer.h"
#include "codec/dialect.h"
#include "codec/sample_format_test_impl.h"

namespace sluice::codec {

using TestJson = nlohmann::ordered_json;

inline constexpr Api kApis[] = {Api::kChat, Api::kMessages, Api::kCompletions, Api::kResponses};
inline constexpr Api kToolApis[] = {Api::kChat, Api::kMessages, Api::kResponses};

inline const ModelCard& TestCard() {
  static const ModelCard kCard{.name = "deepseek-flash"};
  return kCard;
}

// A request of this API with one user message, and these further members.
inline TestJson RequestOf(Api api, const TestJson& members = TestJson::object()) {
  TestJson request = {{"model", "deepseek-flash"}};
  switch (api) {
    case Api::kChat:
    case Api::kMessages:
      request["messages"] = {{{"role", "user"}, {"content", "q"}}};
      break;
    case Api::kCompletions:
      request["prompt"] = "q";
      break;
    case Api::kResponses:
      request["input"] = "q";
      break;
  }
  request.update(members);
  return request;
}

// A tool as this API writes it.
inline TestJson ToolOf(Api api, std::string_view name, const TestJson& parameters) {
  if (api == Api::kMessages) return {{"name", name}, {"input_schema", parameters}};
  const TestJson function = {{"name", name}, {"parameters", parameters}};
  if (api == Api::kChat) return {{"type", "function"}, {"function", function}};
  TestJson flat = {{"type", "function"}};
  flat.update(function);
  return flat;
}

// Tools `f` and `g` that take any object.
inline TestJson ToolsOf(Api api) {
  const TestJson any = {{"type", "object"}, {"properties", TestJson::object()}};
  return {{"tools", TestJson::array({ToolOf(api, "f", any), ToolOf(api, "g", any)})}};
}

inline TestJson WithoutThinking(Api api) {
  if (api == Api::kResponses) return {{"reasoning", {{"effort", "none"}}}};
  if (api == Api::kCompletions) return TestJson::object();
  return {{"thinking", {{"type", "disabled"}}}};
}

inline Result<Prepared> PrepareAs(Api api, const TestJson& request, const Profile& profile = {}) {
  return Prepare(DialectOf(api), request.dump(),
                 {.model = TestCard(), .format = SampleFormat(), .profile = profile});
}

inline std::string TextOf(std::span<const TokenId> ids) {
  std::string text;
  for (const TokenId id : ids) text += SampleFormat().text(id);
  return text;
}

// The body of the answer to these tokens, which come in pieces of `sizes`, used cyclically.
inline std::string Play(Api api,
                        const Prepared& prepared,
                        std::span<const TokenId> tokens,
                        const std::vector<size_t>& sizes,
                        wire::FinishReason finish) {
  Answer answer(DialectOf(api), SampleFormat(), prepared.answer,
                {.id = "1", .created = {}, .fingerprint = "fp", .entropy = 7});
  std::string out;
  auto next = Answer::Next::kMore;
  for (size_t at = 0, i = 0; at < tokens.size() && next == Answer::Next::kMore; ++i) {
    const std::span<const TokenId> piece =
        tokens.subspan(at, std::min(sizes[i % sizes.size()], tokens.size() - at));
    wire::TokenEvent event;
    event.tokens.assign(piece.begin(), piece.end());
    next = answer.OnEvent(0, event, out);
    at += piece.size();
  }
  if (next == Answer::Next::kMore) {
    wire::TokenEvent last;
    last.end = std::make_unique<wire::EventEnd>();
    last.end->finish = finish;
    last.end->usage = {.n_prompt = prepared.answer.n_prompt,
                       .n_cached = 0,
                       .n_completion = static_cast<int32_t>(tokens.size())};
    answer.OnEvent(0, last, out);
  }
  answer.Finish(out);
  return out;
}

// What an answer says.
struct Joined {
  std::string reasoning;
  std::string content;
  std::vector<std::pair<std::string, std::string>> calls;  // names and arguments
  std::string finish;                                      // in the words of the API
  TestJson usage;
  friend bool operator==(const Joined&, const Joined&) = default;
};

inline void PrintTo(const Joined& joined, std::ostream* out) {
  *out << joined.reasoning << " | " << joined.content << " | " << joined.finish << " | "
       << joined.usage;
  for (const auto& [name, arguments] : joined.calls) *out << " | " << name << " " << arguments;
}

inline std::string TextIn(const TestJson& object, const char* key) {
  return object.contains(key) && object[key].is_string() ? object[key].get<std::string>() : "";
}

// Messages has arguments as a value: text that is no JSON object is an empty one there.
inline std::string InputText(const std::string& text) {
  const TestJson value = TestJson::parse(text, nullptr, /*allow_exceptions=*/false);
  return value.is_object() ? value.dump() : "{}";
}

inline std::vector<TestJson> DataOf(std::string_view stream) {
  std::vector<TestJson> data;
  for (size_t at = stream.find("data: "); at != std::string_view::npos;
       at = stream.find("\ndata: ", at)) {
    at = stream.find('{', at);
    if (at == std::string_view::npos) break;
    data.push_back(TestJson::parse(stream.substr(at, stream.find('\n', at) - at)));
  }
  return data;
}

inline void JoinChatPart(const TestJson& part, Joined& joined) {
  joined.reasoning += TextIn(part, "reasoning_content");
  joined.content += TextIn(part, "content");
  if (!part.contains("tool_calls")) return;
  for (const TestJson& call : part["tool_calls"]) {
    if (call.contains("id")) joined.calls.emplace_back(TextIn(call["function"], "name"), "");
    SLUICE_CHECK(call["index"].get<size_t>() + 1 == joined.calls.size());
    joined.calls.back().second += TextIn(call["function"], "arguments");
  }
}

inline Joined JoinOpenAi(std::span<const TestJson> bodies) {
  Joined joined;
  for (const TestJson& body : bodies) {
    if (body.contains("usage") && !body["usage"].is_null()) joined.usage = body["usage"];
    for (const TestJson& choice : body["choices"]) {
      joined.content += TextIn(choice, "text");  // Completions
      for (const char* key : {"delta", "message"}) {
        if (choice.contains(key)) JoinChatPart(choice[key], joined);
      }
      if (!choice["finish_reason"].is_null()) joined.finish += TextIn(choice, "finish_reason");
    }
  }
  return joined;
}

inline void JoinBlock(const TestJson& block, Joined& joined) {
  joined.reasoning += TextIn(block, "thinking");
  joined.content += TextIn(block, "text");
  if (block["type"] == "tool_use") {
    joined.calls.emplace_back(block["name"].get<std::string>(), block["input"].dump());
  }
}

inline Joined JoinMessage(const TestJson& message) {
  Joined joined{.finish = TextIn(message, "stop_reason"), .usage = message["usage"]};
  for (const TestJson& block : message["content"]) JoinBlock(block, joined);
  return joined;
}

inline Joined JoinMessageEvents(std::span<const TestJson> events) {
  Joined joined;
  for (const TestJson& event : events) {
    if (event["type"] == "content_block_start" && event["content_block"]["type"] == "tool_use") {
      joined.calls.emplace_back(event["content_block"]["name"].get<std::string>(), "");
    }
    if (event["type"] == "content_block_delta") {
      joined.reasoning += TextIn(event["delta"], "thinking");
      joined.content += TextIn(event["delta"], "text");
      if (event["delta"]["type"] == "input_json_delta") {
        joined.calls.back().second += TextIn(event["delta"], "partial_json");
      }
    }
    if (event["type"] != "message_delta") continue;
    joined.finish += TextIn(event["delta"], "stop_reason");
    joined.usage = event["usage"];
  }
  for (auto& [name, input] : joined.calls) input = InputText(input);
  return joined;
}

inline Joined JoinResponse(const TestJson& response) {
  Joined joined{.finish = TextIn(response, "status"), .usage = response["usage"]};
  for (const TestJson& item : response["output"]) {
    if (item["type"] == "function_call") {
      joined.calls.emplace_back(TextIn(item, "name"), TextIn(item, "arguments"));
    }
    if (!item.contains("content")) continue;
    std::string& into = item["type"] == "reasoning" ? joined.reasoning : joined.content;
    for (const TestJson& part : item["content"]) into += TextIn(part, "text");
  }
  return joined;
}

inline Joined JoinResponseEvents(std::span<const TestJson> events) {
  Joined joined;
  for (const TestJson& event : events) {
    const std::string type = event["type"];
    const std::string delta = TextIn(event, "delta");
    if (type == "response.reasoning_text.delta") joined.reasoning += delta;
    if (type == "response.output_text.delta") joined.content += delta;
    if (type == "response.function_call_arguments.delta") joined.calls.back().second += delta;
    if (type == "response.output_item.added" && event["item"]["type"] == "function_call") {
      joined.calls.emplace_back(TextIn(event["item"], "name"), "");
    }
    if (!event.contains("response") || event["response"]["status"] == "in_progress") continue;
    joined.finish += TextIn(event["response"], "status");
    joined.usage = event["response"]["usage"];
  }
  return joined;
}

inline Joined JoinedOf(Api api, bool is_stream, const std::string& out) {
  const std::vector<TestJson> bodies =
      is_stream ? DataOf(out) : std::vector<TestJson>{TestJson::parse(out)};
  if (api == Api::kMessages) {
    return is_stream ? JoinMessageEvents(bodies) : JoinMessage(bodies[0]);
  }
  if (api == Api::kResponses) {
    return is_stream ? JoinResponseEvents(bodies) : JoinResponse(bodies[0]);
  }
  return JoinOpenAi(bodies);
}

}  // namespace sluice::codec
