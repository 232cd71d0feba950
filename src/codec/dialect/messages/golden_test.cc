// The golden cases of Messages (testdata/README.md says where they come from): requests to
// conversations, refusals, events to answers.

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "codec/base64_test_impl.h"
#include "codec/dialect/messages/decode.h"
#include "codec/dialect/messages/encode.h"
#include "codec/dialect/messages/prompt_test_impl.h"
#include "codec/dialect/sampling.h"
#include "codec/sample_format_test_impl.h"

namespace sluice::codec::messages {
namespace {

using nlohmann::json;

std::vector<json> Cases(const std::string& file) {
  std::ifstream in(std::string(SLUICE_SOURCE_DIR) + "/src/codec/testdata/messages/" + file);
  EXPECT_TRUE(in.is_open()) << file;
  std::vector<json> cases;
  for (std::string line; std::getline(in, line);) cases.push_back(json::parse(line));
  EXPECT_FALSE(cases.empty()) << file;
  return cases;
}

// Field order inside a request matters, which nlohmann's plain object would lose.
std::string BodyOf(const std::string& line, const json& c) {
  if (c.contains("request_raw")) return c["request_raw"];
  if (c.contains("request_base64")) return FromBase64(c["request_base64"].get<std::string>());
  return nlohmann::ordered_json::parse(line)["request"].dump();
}

std::vector<std::string> Lines(const std::string& file) {
  std::ifstream in(std::string(SLUICE_SOURCE_DIR) + "/src/codec/testdata/messages/" + file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  EXPECT_GT(lines.size(), 20u) << file;
  return lines;
}

struct Setting {
  ModelCard card;
  PrepareContext context{.model = card, .format = SampleFormat()};
};

std::unique_ptr<Setting> SettingOf(const json& c, bool is_reference) {
  auto setting = std::make_unique<Setting>();
  setting->card = {.name = "deepseek-flash",
                   .aliases = {"DeepSeek-V4-Pro", "DeepSeek-V4.1-Flash"},
                   .reads_images = true};
  if (is_reference) setting->context.profile = Profile::Reference();
  const json options = c.value("options", json::object());
  setting->card.n_output_max = options.value("max_tokens_bound", setting->card.n_output_max);
  setting->context.default_thinking = options.value("default_thinking", true);
  setting->context.profile.missing_reasoning_reject =
      options.value("missing_reasoning", "fill") == "reject";
  setting->context.profile.messages_web_search_drop =
      options.value("messages_web_search", "reject") == "drop";
  return setting;
}

void CheckParams(const json& c, bool is_reference, DecodedRequest& request) {
  // What Prepare does behind Decode.
  ApplySamplingPolicy(is_reference ? Profile::Reference() : Profile(),
                      request.conversation.thinking, request.sampling);
  json params = c["params"];
  json parse = c["parse"];
  if (!is_reference && c.contains("ours")) {
    if (c["ours"].contains("params")) params.update(c["ours"]["params"]);
    if (c["ours"].contains("parse")) parse = c["ours"]["parse"];
  }
  const Conversation& conversation = request.conversation;
  EXPECT_EQ(conversation.thinking, params["thinking"].get<bool>());
  EXPECT_EQ(request.answer.thinking, conversation.thinking);
  EXPECT_EQ(request.answer.stream, params["stream"].get<bool>());
  EXPECT_EQ(request.answer.stops, parse["stop"].get<std::vector<std::string>>());
  EXPECT_EQ(request.n_max_asked ? json(*request.n_max_asked) : json(nullptr), params["max_tokens"]);
  EXPECT_NEAR(request.sampling.temperature, params["temperature"].get<double>(), 1e-6);
  EXPECT_NEAR(request.sampling.top_p, params["top_p"].get<double>(), 1e-6);
  EXPECT_EQ(request.sampling.top_k, params.value("top_k", 0));
  EXPECT_EQ(request.thinking_budget ? json(*request.thinking_budget) : json(nullptr),
            params.value("thinking_budget", json(nullptr)));
  EXPECT_EQ(conversation.parallel_tool_calls, params.value("max_calls", 0) != 1);
  const json constraint = params["constraint"];
  const std::string kind = constraint.is_null() ? "" : constraint["kind"].get<std::string>();
  EXPECT_EQ(ForcesCall(conversation.tool_choice), kind == "tool_call_required");
  EXPECT_EQ(conversation.tools.empty(), kind.empty());
  if (kind.empty()) return;
  const json tools = json::parse(constraint["schema"].get<std::string>());
  ASSERT_EQ(conversation.tools.size(), tools.size());
  for (size_t i = 0; i < tools.size(); ++i) {
    EXPECT_EQ(conversation.tools[i].name, tools[i]["function"]["name"].get<std::string>());
    EXPECT_EQ(conversation.tools[i].is_deferred, tools[i].value("defer_loading", false));
    EXPECT_FALSE(conversation.tools[i].strict);
  }
}

void CheckImages(const json& c, const Conversation& conversation) {
  json images = json::array();
  for (const Message& message : conversation.messages) {
    for (const Image& image : message.images) {
      images.push_back({{"kind", image.is_url ? "url" : "data_url"},
                        {"detail", image.detail == ImageDetail::kHigh ? "high" : "other"},
                        {"path", image.path}});
    }
  }
  EXPECT_EQ(images, c.value("images", json::array()));
}

TEST(MessagesGolden, RequestsBecomeTheExpectedConversationsInBothProfiles) {
  for (const std::string& line : Lines("encode.jsonl")) {
    const json c = json::parse(line);
    for (bool is_reference : {true, false}) {
      SCOPED_TRACE(c["name"].get<std::string>() + (is_reference ? " reference" : " ours"));
      auto setting = SettingOf(c, is_reference);
      Result<DecodedRequest> request = Decode(BodyOf(line, c), setting->context);
      ASSERT_TRUE(request) << request.status().ToString();
      const bool is_ours = !is_reference && c.contains("ours") && c["ours"].contains("prompt");
      EXPECT_EQ(PromptOf(request->conversation),
                (is_ours ? c["ours"]["prompt"] : c["prompt"]).get<std::string>());
      CheckParams(c, is_reference, *request);
      CheckImages(c, request->conversation);
    }
  }
}

// The tools that a search has found come back sorted into the list: everything in front of them
// must stay as it was, or each search costs the whole cached prefix (spec clients.md §2.1).
TEST(MessagesGolden, FoundToolsLeaveTheFrontOfThePromptAlone) {
  auto prompt = [](const std::string& tools, const std::string& more) {
    Result<DecodedRequest> request = Decode(
        R"({"model":"m","messages":[{"role":"user","content":"x"})" + more + R"(],"tools":[)" +
            R"({"name":"search","input_schema":{"type":"object"}})" + tools + "]}",
        {.model = {.name = "m"}, .format = SampleFormat()});
    EXPECT_TRUE(request) << request.status().ToString();
    return PromptOf(request->conversation);
  };
  auto deferred = [](const std::string& name) {
    return R"({"name":")" + name + R"(","input_schema":{"type":"object"},"defer_loading":true})";
  };
  const std::string found =
      R"(,{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"search","input":{}}]},
         {"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[
           {"type":"tool_reference","tool_name":"z"},
           {"type":"tool_reference","tool_name":"b"}]}]})";
  const std::string before = prompt("," + deferred("p"), "");
  const std::string after =
      prompt("," + deferred("b") + "," + deferred("p") + "," + deferred("z"), found);
  const std::string tail = "<｜Assistant｜><think>";
  ASSERT_TRUE(before.ends_with(tail));
  EXPECT_TRUE(after.starts_with(before.substr(0, before.size() - tail.size())));
  EXPECT_EQ(after, prompt("," + deferred("z") + "," + deferred("b"), found));
  EXPECT_LT(after.find(R"("name": "z")"), after.find(R"("name": "b")"));
}

// What our profile accepts beyond the reference, besides the cases with `ours`: a missing type of a
// schema is object (spec recipe.md §7.1).
TEST(MessagesGolden, RefusedRequestsAreRefusedWithTheReferencesWordsInBothProfiles) {
  for (const std::string& line : Lines("reject.jsonl")) {
    const json c = json::parse(line);
    for (bool is_reference : {true, false}) {
      SCOPED_TRACE(c["name"].get<std::string>() + (is_reference ? " reference" : " ours"));
      auto setting = SettingOf(c, is_reference);
      Result<DecodedRequest> request = Decode(BodyOf(line, c), setting->context);
      const std::string ours = c.contains("ours") && c["ours"].is_string() ? c["ours"] : json("");
      if (!is_reference && ours.starts_with("accept")) {
        EXPECT_TRUE(request) << request.status().ToString();
        continue;
      }
      // The body reader is one for all profiles (spec recipe.md §7.5).
      if (c["name"] == "messages/body/lone-surrogate") continue;
      ASSERT_FALSE(request);
      const Status& status = request.error();
      EXPECT_EQ(RowOf(status.code()).http_status, c["error"]["status"].get<int>());
      const json body = json::parse(ErrorBody(status, "req_1"));
      EXPECT_EQ(body["type"], "error");
      EXPECT_EQ(body["request_id"], "req_1");
      EXPECT_EQ(body["error"].size(), 2u);
      EXPECT_EQ(body["error"]["type"], c["error"]["type"]);
      if (c["error"]["message_binding"].get<bool>()) {
        EXPECT_EQ(body["error"]["message"], c["error"]["message"]);
      }
      EXPECT_LT(status.message().size(), 600u);
    }
  }
}

// Events as an output machine would make them of a golden answer: texts in pieces of two
// characters, arguments as the stream has them.
struct Feed {
  OutputKind kind;
  std::string text;
  int32_t call = 0;
  std::string id;
};

std::vector<Feed> FeedOf(const json& c) {
  std::vector<Feed> feeds;
  int32_t call = -1;
  bool is_call = false;
  const bool was_cut = c["response"]["stop_reason"] == "max_tokens";
  const json& events = c["events"];
  for (size_t i = 0; i < events.size(); ++i) {
    const json& event = events[i];
    if (event["type"] == "content_block_start") {
      is_call = event["content_block"]["type"] == "tool_use";
      if (!is_call) continue;
      feeds.push_back({OutputKind::kCall, event["content_block"]["name"], ++call,
                       "call_0" + std::to_string(call) + "_x"});
    } else if (event["type"] == "content_block_stop" && is_call) {
      const bool is_last = events[i + 1]["type"] == "message_delta";
      if (!(is_last && was_cut)) feeds.push_back({OutputKind::kCallEnd, "", call});
    } else if (event["type"] == "content_block_delta") {
      const json& delta = event["delta"];
      if (delta["type"] == "signature_delta") continue;
      const OutputKind kind = delta["type"] == "thinking_delta" ? OutputKind::kReasoning
                              : delta["type"] == "text_delta"   ? OutputKind::kContent
                                                                : OutputKind::kArguments;
      std::string text = delta.contains("thinking") ? delta["thinking"]
                         : delta.contains("text")   ? delta["text"]
                                                    : delta["partial_json"];
      for (size_t at = 0; at < text.size();) {
        size_t end = std::min(at + 2, text.size());
        while (end < text.size() && (static_cast<uint8_t>(text[end]) & 0xC0) == 0x80) ++end;
        feeds.push_back({kind, text.substr(at, end - at), call});
        at = end;
      }
    }
  }
  return feeds;
}

Finish FinishNamed(const std::string& name) {
  if (name == "stop_sequence") return Finish::kStopString;
  if (name == "max_tokens") return Finish::kLength;
  if (name == "tool_use") return Finish::kToolCalls;
  if (name == "refusal") return Finish::kContentFilter;
  return Finish::kStop;
}

std::string Play(const json& c, bool is_stream) {
  AnswerSpec spec;
  spec.model = "deepseek-flash";
  spec.thinking = !c["request"].contains("thinking");
  spec.start = spec.thinking ? OutputStart::kReasoning : OutputStart::kContent;
  spec.stream = is_stream;
  const json& usage = c["response"]["usage"];
  wire::Usage prompt{.n_prompt = c["prompt_usage"]["prompt_tokens"],
                     .n_cached = c["prompt_usage"]["cached_tokens"]};
  wire::Usage total = prompt;
  total.n_completion = usage["output_tokens"];
  Encoder encoder(spec, {.id = "abc", .created = {}, .fingerprint = ""});
  std::string out;
  encoder.Begin(0, prompt, out);
  for (const Feed& feed : FeedOf(c)) {
    encoder.OnEvent(0,
                    {.kind = feed.kind,
                     .text = feed.text,
                     .logprobs = {},
                     .call = feed.call,
                     .call_id = feed.id},
                    out);
  }
  const json stop = c["response"]["stop_sequence"];
  const std::string stop_text = stop.is_null() ? "" : stop.get<std::string>();
  encoder.End(0, {.finish = FinishNamed(c["response"]["stop_reason"]), .stop = stop_text},
              is_stream ? &total : nullptr, out);
  if (!is_stream) {
    EXPECT_TRUE(out.empty());
  }
  encoder.Finish(total, out);
  return out;
}

// Ids and signatures as the goldens write them.
void Generalize(json& block) {
  if (block.contains("signature") && block["signature"] != "") {
    EXPECT_EQ(block["signature"], "msg_abc");
    block["signature"] = "SIGNATURE";
  }
  if (block.value("type", "") == "tool_use") block["id"] = "ID";
}

// The stream as the goldens write it: adjacent deltas of one kind joined.
std::vector<json> JoinedEvents(const std::string& stream) {
  std::vector<json> joined;
  for (size_t at = 0; at < stream.size();) {
    const size_t end = stream.find("\n\n", at);
    const std::string frame = stream.substr(at, end - at);
    at = end + 2;
    const size_t data = frame.find("\ndata: ");
    json event = json::parse(frame.substr(data + 7));
    EXPECT_EQ(frame.substr(0, data), "event: " + event["type"].get<std::string>());
    if (event["type"] == "message_start") {
      EXPECT_EQ(event["message"]["id"], "msg_abc");
      EXPECT_EQ(event["message"]["model"], "deepseek-flash");
      event["message"].erase("id");
      event["message"].erase("model");
    }
    if (event.contains("content_block")) Generalize(event["content_block"]);
    if (event.contains("delta")) Generalize(event["delta"]);
    bool is_merged = false;
    if (!joined.empty() && event["type"] == "content_block_delta" &&
        joined.back()["type"] == event["type"] &&
        joined.back()["delta"]["type"] == event["delta"]["type"]) {
      for (const char* field : {"text", "thinking", "partial_json"}) {
        if (!event["delta"].contains(field)) continue;
        joined.back()["delta"][field] = joined.back()["delta"][field].get<std::string>() +
                                        event["delta"][field].get<std::string>();
        is_merged = true;
      }
    }
    if (!is_merged) joined.push_back(event);
  }
  return joined;
}

TEST(MessagesGolden, EventsBecomeTheExpectedResponseAndStream) {
  for (const json& c : Cases("decode.jsonl")) {
    SCOPED_TRACE(c["name"].get<std::string>());
    json response = json::parse(Play(c, false));
    EXPECT_EQ(response["id"], "msg_abc");
    EXPECT_EQ(response["model"], "deepseek-flash");
    response.erase("id");
    response.erase("model");
    json expected = c["response"];
    for (json* answer : {&response, &expected}) {
      for (json& block : (*answer)["content"]) {
        if (block["type"] == "tool_use") block["id"] = "ID";
        if (block.contains("signature")) block["signature"] = "SIGNATURE";
      }
    }
    EXPECT_EQ(response, expected);
    std::vector<json> events = c["events"];
    for (json& event : events) {
      if (event.contains("content_block")) Generalize(event["content_block"]);
    }
    EXPECT_EQ(JoinedEvents(Play(c, true)), events);
  }
}

}  // namespace
}  // namespace sluice::codec::messages
