// A server and its clients for tests of turns that go out and come back in the next request, for
// each API: Prepare and Answer over the real vocabulary, with a model that does not write canonical
// tokens. Thread-compatible.

#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "codec/answer.h"
#include "codec/cut_format_test_impl.h"
#include "codec/turn_memory.h"

namespace sluice::codec::turn_test {

using deepseek_v41::Control;
using nlohmann::json;
using Ids = std::vector<TokenId>;

inline const std::string kCalls =
    "\n\n<｜DSML｜ calls>\n"
    "<｜DSML｜ invoke name=\"f\">\n"
    "<｜DSML｜ parameter name=\"path\" string=\"true\">src/größe.cc</｜DSML｜ parameter>\n"
    "<｜DSML｜ parameter name=\"at\" string=\"false\">[1,   2.5, {\"b\":60,\"a\":null}]"
    "</｜DSML｜ parameter>\n"
    "</｜DSML｜ invoke>\n"
    "<｜DSML｜ invoke name=\"g\">\n\n</｜DSML｜ invoke>\n"
    "</｜DSML｜ calls>";
inline const std::string kReasoning = "The user wants the function to return.\n\nLook first.";
inline const std::string kText = "I will look at it.";

inline TokenId ByteToken(char byte) {
  const deepseek_v41::Format& format = CutFormat();
  for (int32_t id = 0; id < format.n_tokens(); ++id) {
    if (format.text(TokenId(id)) == std::string_view(&byte, 1)) return TokenId(id);
  }
  ADD_FAILURE() << "no token of this byte";
  return TokenId();
}

// As no encoder would write it: every second token of several bytes is split into bytes.
inline Ids Sampled(const std::string& text) {
  Ids canonical, ids;
  CutFormat().bpe().EncodeWithAdded(text, canonical);
  bool splits = true;
  for (const TokenId id : canonical) {
    const std::string_view piece = CutFormat().text(id);
    const bool is_plain = !CutFormat().vocabulary().is_added(id) && piece.size() > 1;
    if (!is_plain || !(splits = !splits)) {
      ids.push_back(id);
      continue;
    }
    for (const char byte : piece) ids.push_back(ByteToken(byte));
  }
  EXPECT_GT(ids.size(), canonical.size());
  return ids;
}

inline Ids Joined(Ids ids, const Ids& more) {
  ids.insert(ids.end(), more.begin(), more.end());
  return ids;
}

// What a model leaves behind in the cache: the prompt, what it sampled, the end of sentence.
inline Ids Cached(const Ids& prompt, const Ids& sampled) {
  Ids ids = Joined(prompt, sampled);
  ids.push_back(CutFormat().control(Control::kEnd));
  return ids;
}

inline bool BeginsWith(const Ids& ids, const Ids& beginning) {
  return ids.size() > beginning.size() &&
         std::equal(beginning.begin(), beginning.end(), ids.begin());
}

struct Ending {
  wire::FinishReason finish = wire::FinishReason::kEnd;
  bool is_complete = true;  // else the request fails or its client goes
};

class Server {
 public:
  explicit Server(Api api) : dialect_(DialectOf(api)) {}

  PrepareContext Context() {
    PrepareContext context = {.model = card, .format = CutFormat()};
    context.profile = profile;
    context.turns = &memory;
    context.key = key;
    return context;
  }

  Prepared Prepare(const json& body) {
    Result<Prepared> prepared = codec::Prepare(dialect_, body.dump(), Context());
    EXPECT_TRUE(prepared) << prepared.status().ToString() << body.dump(1);
    if (!prepared) return {};
    return std::move(*prepared);
  }

  Ids PromptOf(const json& body) { return *Prepare(body).generate.prompt; }

  // One choice each.
  std::string Answer(const json& body, const std::vector<Ids>& sampled, Ending ending = {}) {
    Prepared prepared = Prepare(body);
    prompt = *prepared.generate.prompt;
    codec::Answer answer(dialect_, CutFormat(), std::move(prepared.answer),
                         {.id = "id" + std::to_string(++n_answers_),
                          .created = {},
                          .fingerprint = "fp",
                          .entropy = static_cast<uint64_t>(n_answers_)});
    std::string out;
    for (size_t i = 0; i < sampled.size(); ++i) {
      const Ids& ids = sampled[i];
      auto next = codec::Answer::Next::kMore;
      for (size_t at = 0; at < ids.size() && next == codec::Answer::Next::kMore; ++at) {
        wire::TokenEvent event;
        event.tokens.push_back(ids[at]);
        next = answer.OnEvent(static_cast<int32_t>(i), event, out);
      }
      wire::TokenEvent end;
      end.end = std::make_unique<wire::EventEnd>();
      end.end->finish = ending.finish;
      answer.OnEvent(static_cast<int32_t>(i), end, out);
    }
    if (ending.is_complete) answer.Finish(out);
    return out;
  }

  TurnMemory memory{kMiB};
  KeyId key{1};
  Profile profile;
  ModelCard card = {.name = "deepseek-flash", .reads_images = true};
  Ids prompt;  // of the last answer

 private:
  const Dialect& dialect_;
  int n_answers_ = 0;
};

// How clients differ (spec clients.md §4).
struct Habits {
  bool stream = false;
  bool compact = false;        // arguments are parsed and written again
  bool renames = false;        // calls get ids of the client's own
  bool has_reasoning = true;   // is sent back
  bool empty_is_null = false;  // Chat: content without text
};

inline std::vector<json> Events(const std::string& stream) {
  std::vector<json> events;
  for (size_t at = stream.find("data: {"); at != std::string::npos;
       at = stream.find("\ndata: {", at)) {
    at = stream.find('{', at);
    events.push_back(json::parse(stream.substr(at, stream.find('\n', at) - at)));
  }
  return events;
}

inline std::string Written(const std::string& arguments, const Habits& habits) {
  return habits.compact ? json::parse(arguments).dump() : arguments;
}

// `n_before`: messages or items of the request so far, for ids that are its only ones.
inline std::string IdOf(const std::string& id, size_t n_before, size_t i, const Habits& habits) {
  if (!habits.renames) return id;
  return "own_" + std::to_string(n_before) + "_" + std::to_string(i);
}

struct Chat {
  static constexpr Api kApi = Api::kChat;
  static json Body(const Habits& habits) {
    json tools = json::array();
    for (const char* name : {"f", "g"}) {
      tools.push_back({{"type", "function"}, {"function", {{"name", name}}}});
    }
    return {{"model", "deepseek-flash"},
            {"stream", habits.stream},
            {"tools", tools},
            {"messages", {{{"role", "user"}, {"content", "Fix it."}}}}};
  }
  static json MessageOf(const std::string& out, const Habits& habits, int choice = 0) {
    if (!habits.stream) return json::parse(out)["choices"][static_cast<size_t>(choice)]["message"];
    json message = {{"content", ""}, {"reasoning_content", ""}};
    for (const json& event : Events(out)) {
      if (event["choices"].empty() || event["choices"][0]["index"] != choice) continue;
      const json& delta = event["choices"][0]["delta"];
      for (const char* name : {"content", "reasoning_content"}) {
        if (!delta.contains(name) || delta[name].is_null()) continue;
        message[name] = message[name].get<std::string>() + delta[name].get<std::string>();
      }
      if (!delta.contains("tool_calls")) continue;
      json call = delta["tool_calls"][0];
      json& calls = message["tool_calls"];
      if (call.contains("id")) {
        calls.push_back(call);
        continue;
      }
      json& arguments = calls[call["index"].get<size_t>()]["function"]["arguments"];
      arguments = arguments.get<std::string>() + call["function"]["arguments"].get<std::string>();
    }
    return message;
  }
  static void Add(const std::string& out, const Habits& habits, json& body, int choice = 0) {
    json message = MessageOf(out, habits, choice);
    message["role"] = "assistant";
    if (!habits.has_reasoning) message.erase("reasoning_content");
    if (message["content"] == "" && habits.empty_is_null) message["content"] = nullptr;
    std::vector<json> results;
    for (size_t i = 0; message.contains("tool_calls") && i < message["tool_calls"].size(); ++i) {
      json& call = message["tool_calls"][i];
      call["id"] = IdOf(call["id"], body["messages"].size(), i, habits);
      call["function"]["arguments"] = Written(call["function"]["arguments"], habits);
      results.push_back({{"role", "tool"}, {"tool_call_id", call["id"]}, {"content", "done"}});
    }
    body["messages"].push_back(message);
    if (results.empty()) results.push_back({{"role", "user"}, {"content", "Go on."}});
    for (const json& result : results) body["messages"].push_back(result);
  }
};

struct Messages {
  static constexpr Api kApi = Api::kMessages;
  static json Body(const Habits& habits) {
    json tools = json::array();
    for (const char* name : {"f", "g"}) {
      tools.push_back({{"name", name}, {"input_schema", {{"type", "object"}}}});
    }
    return {{"model", "deepseek-flash"},
            {"stream", habits.stream},
            {"max_tokens", 1000},
            {"tools", tools},
            {"messages", {{{"role", "user"}, {"content", "Fix it."}}}}};
  }
  static json BlocksOf(const std::string& out, const Habits& habits) {
    if (!habits.stream) return json::parse(out)["content"];
    json blocks = json::array();
    std::string input;
    for (const json& event : Events(out)) {
      if (event["type"] == "content_block_start") {
        blocks.push_back(event["content_block"]);
        input.clear();
      } else if (event["type"] == "content_block_stop" && blocks.back()["type"] == "tool_use") {
        blocks.back()["input"] = json::parse(input);
      } else if (event["type"] == "content_block_delta") {
        const json& delta = event["delta"];
        if (delta["type"] == "input_json_delta") input += delta["partial_json"].get<std::string>();
        for (const char* name : {"text", "thinking", "signature"}) {
          if (!delta.contains(name)) continue;
          blocks.back()[name] =
              blocks.back()[name].get<std::string>() + delta[name].get<std::string>();
        }
      }
    }
    return blocks;
  }
  static void Add(const std::string& out, const Habits& habits, json& body) {
    json content = json::array(), results = json::array();
    for (json& block : BlocksOf(out, habits)) {
      if (block["type"] == "thinking" && !habits.has_reasoning) continue;
      if (block["type"] == "tool_use") {
        block["id"] = IdOf(block["id"], body["messages"].size(), results.size(), habits);
        results.push_back(
            {{"type", "tool_result"}, {"tool_use_id", block["id"]}, {"content", "done"}});
      }
      content.push_back(block);
    }
    body["messages"].push_back({{"role", "assistant"}, {"content", content}});
    if (results.empty()) results.push_back({{"type", "text"}, {"text", "Go on."}});
    body["messages"].push_back({{"role", "user"}, {"content", results}});
  }
};

struct Responses {
  static constexpr Api kApi = Api::kResponses;
  static json Body(const Habits& habits) {
    json tools = json::array();
    for (const char* name : {"f", "g"}) tools.push_back({{"type", "function"}, {"name", name}});
    return {{"model", "deepseek-flash"},
            {"stream", habits.stream},
            {"tools", tools},
            {"input", {{{"role", "user"}, {"content", "Fix it."}}}}};
  }
  static json OutputOf(const std::string& out, const Habits& habits) {
    return habits.stream ? Events(out).back()["response"]["output"] : json::parse(out)["output"];
  }
  static void Add(const std::string& out, const Habits& habits, json& body) {
    const size_t n_before = body["input"].size();
    std::vector<json> results;
    for (json& item : OutputOf(out, habits)) {
      if (item["type"] == "reasoning" && !habits.has_reasoning) continue;
      item.erase("status");
      if (item.contains("call_id")) {
        item["call_id"] = IdOf(item["call_id"], n_before, results.size(), habits);
        if (item.contains("arguments") && item["arguments"].is_string()) {
          item["arguments"] = Written(item["arguments"], habits);
        }
        std::string type = item["type"];
        results.push_back(
            {{"type", type == "function_call" ? "function_call_output" : type + "_output"},
             {"call_id", item["call_id"]},
             {"output", "done"}});
        if (type == "tool_search_call") {
          results.back() = {{"type", "tool_search_output"},
                            {"call_id", item["call_id"]},
                            {"tools", json::array()}};
        }
      }
      body["input"].push_back(item);
    }
    if (results.empty()) results.push_back({{"role", "user"}, {"content", "Go on."}});
    for (const json& result : results) body["input"].push_back(result);
  }
};

}  // namespace sluice::codec::turn_test
