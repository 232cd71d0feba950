// What the golden cases do not cover: order and identity of events, signs of life, failures, what
// is kept.

#include "codec/dialect/responses/encode.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "base/bytes.h"

namespace sluice::codec::responses {
namespace {

using nlohmann::json;

AnswerSpec Spec(bool stream = true) {
  AnswerSpec spec{.model = "deepseek-flash", .stream = stream};
  spec.echo = R"("model":"deepseek-flash","tools":[])";
  spec.tools = {{.name = "f"},
                {.name = "patch", .kind = ToolKind::kCustom},
                {.name = "tool_search", .kind = ToolKind::kSearch},
                {.name = "git::log", .name_space = "git", .bare_name = "log"}};
  return spec;
}

AnswerIdentity Identity() { return {.id = "7", .created = {}, .fingerprint = "fp", .entropy = 1}; }

constexpr wire::Usage kUsage{.n_prompt = 5, .n_cached = 3, .n_completion = 4, .n_reasoning = 1};

OutputEvent Text(OutputKind kind, std::string_view text) {
  return {.kind = kind, .text = text, .logprobs = {}};
}

// A call with its arguments; the model completes it unless `is_cut`.
void Call(Encoder& encoder,
          std::string_view name,
          std::string_view arguments,
          bool is_cut,
          std::string& out) {
  encoder.OnEvent(0, {.kind = OutputKind::kCall, .text = name, .logprobs = {}, .call_id = "call_1"},
                  out);
  encoder.OnEvent(0, Text(OutputKind::kArguments, arguments), out);
  if (!is_cut) encoder.OnEvent(0, Text(OutputKind::kCallEnd, ""), out);
}

void End(Encoder& encoder, codec::Finish finish, std::string& out) {
  encoder.End(0, {.finish = finish}, nullptr, out);
  encoder.Finish(kUsage, out);
}

// The data of each event; comments are left out.
std::vector<json> EventsOf(const std::string& stream) {
  std::vector<json> events;
  for (size_t at = 0; at < stream.size(); at = stream.find("\n\n", at) + 2) {
    if (stream[at] == ':') continue;
    const size_t data = stream.find("\ndata: ", at) + 7;
    events.push_back(json::parse(stream.substr(data, stream.find('\n', data) - data)));
  }
  return events;
}

std::vector<std::string> TypesOf(const std::string& stream) {
  std::vector<std::string> types;
  for (const json& event : EventsOf(stream))
    types.push_back(event["type"].get<std::string>().substr(std::string("response.").size()));
  return types;
}

// C17: data objects without `type`, the response not nested, and clients that saw no end.
TEST(ResponsesEncoder, C17EveryEventCarriesItsTypeAndTheLastOneNestsTheWholeResponse) {
  const AnswerSpec spec = Spec();
  Encoder encoder(spec, Identity());
  std::string out;
  encoder.Begin(0, kUsage, out);
  encoder.OnEvent(0, Text(OutputKind::kReasoning, "so"), out);
  encoder.OnEvent(0, Text(OutputKind::kContent, "hi"), out);
  Call(encoder, "f", "{}", /*is_cut=*/false, out);
  End(encoder, codec::Finish::kToolCalls, out);

  size_t at = 0;
  int64_t n = 0;
  for (const json& event : EventsOf(out)) {
    const std::string line = "event: " + event["type"].get<std::string>() + "\ndata: ";
    EXPECT_EQ(out.compare(at, line.size(), line), 0) << event;
    EXPECT_EQ(event["sequence_number"], n++);
    at = out.find("\n\n", at) + 2;
  }
  const json last = EventsOf(out).back();
  EXPECT_EQ(last["type"], "response.completed");
  EXPECT_EQ(last["response"]["id"], "resp_7");
  EXPECT_EQ(last["response"]["status"], "completed");
  EXPECT_EQ(last["response"]["output"].size(), 3u);
  EXPECT_EQ(last["response"]["usage"]["total_tokens"], 9);
}

// C18: ids differed between output_item.done and the final response, `.done` events were missing.
TEST(ResponsesEncoder, C18AnItemHasOneIdentityEverywhereAndAlwaysItsDoneEvents) {
  const AnswerSpec spec = Spec();
  Encoder encoder(spec, Identity());
  std::string out;
  encoder.Begin(0, kUsage, out);
  encoder.OnEvent(0, Text(OutputKind::kReasoning, "so"), out);
  encoder.OnEvent(0, Text(OutputKind::kContent, "hi"), out);
  Call(encoder, "git::log", R"({"n": 3})", /*is_cut=*/false, out);
  Call(encoder, "patch", R"({"input": "*** Begin"})", /*is_cut=*/false, out);
  End(encoder, codec::Finish::kToolCalls, out);

  const std::vector<json> events = EventsOf(out);
  const json& output = events.back()["response"]["output"];
  ASSERT_EQ(output.size(), 4u);
  std::set<std::string> ids;
  std::multiset<std::string> types;
  for (const json& event : events) {
    types.insert(event["type"].get<std::string>());
    if (!event.contains("output_index")) continue;
    const json& item = output[event["output_index"].get<size_t>()];
    if (event["type"] == "response.output_item.done") {
      EXPECT_EQ(event["item"], item);
    }
    if (event["type"] == "response.output_item.added") {
      EXPECT_EQ(event["item"]["id"], item["id"]);
      EXPECT_EQ(event["item"].value("call_id", ""), item.value("call_id", ""));
      ids.insert(item["id"].get<std::string>());
    }
    if (event.contains("item_id")) {
      EXPECT_EQ(event["item_id"], item["id"]);
    }
  }
  EXPECT_EQ(ids,
            (std::set<std::string>{"rs_resp_7_0", "msg_resp_7_1", "fc_resp_7_2", "ctc_resp_7_3"}));
  for (const char* type :
       {"response.reasoning_text.done", "response.output_text.done",
        "response.function_call_arguments.done", "response.custom_tool_call_input.done"}) {
    EXPECT_EQ(types.count(type), 1u) << type;
  }
  EXPECT_EQ(types.count("response.content_part.done"), 2u);
  EXPECT_EQ(types.count("response.output_item.done"), 4u);
  EXPECT_EQ(output[2]["name"], "log");
  EXPECT_EQ(output[2]["namespace"], "git");
  EXPECT_EQ(output[3]["input"], "*** Begin");
}

// C25: comments do not keep Codex waiting.
TEST(ResponsesEncoder, C25SignsOfLifeAreEventsWithTheNextNumber) {
  const AnswerSpec spec = Spec();
  Encoder encoder(spec, Identity());
  std::string out;
  for (int i = 0; i < 3; ++i) encoder.Heartbeat(out);  // before the first token
  encoder.Begin(0, kUsage, out);
  EXPECT_EQ(TypesOf(out),
            (std::vector<std::string>{"created", "in_progress", "in_progress", "in_progress"}));
  encoder.OnEvent(0, Text(OutputKind::kContent, "hi"), out);
  // `in_progress` is for the time between items; an open one gets a delta that adds nothing.
  for (const OutputEvent& event :
       {Text(OutputKind::kContent, ""), Text(OutputKind::kCall, "f"),
        Text(OutputKind::kArguments, "{"), Text(OutputKind::kCall, "patch"),
        Text(OutputKind::kArguments, R"({"input": "a)")}) {
    encoder.OnEvent(0, event, out);
    const size_t n_before = out.size();
    encoder.Heartbeat(out);
    const std::vector<json> sent = EventsOf(out.substr(n_before));
    ASSERT_EQ(sent.size(), 1u);
    EXPECT_TRUE(sent[0]["type"].get<std::string>().ends_with(".delta")) << sent[0];
    EXPECT_EQ(sent[0]["delta"], "");
  }
  End(encoder, codec::Finish::kStop, out);
  int64_t n = 0;
  for (const json& event : EventsOf(out)) EXPECT_EQ(event["sequence_number"], n++);
  EXPECT_EQ(TypesOf(out).back(), "completed");
}

TEST(ResponsesEncoder, OutsideAStreamASignOfLifeIsWhiteSpace) {
  const AnswerSpec spec = Spec(/*stream=*/false);
  Encoder encoder(spec, Identity());
  std::string out;
  encoder.Heartbeat(out);
  encoder.Begin(0, kUsage, out);
  encoder.OnEvent(0, Text(OutputKind::kContent, "hi"), out);
  encoder.Heartbeat(out);
  EXPECT_EQ(out, "\n\n");
  End(encoder, codec::Finish::kStop, out);
  EXPECT_EQ(json::parse(out)["output"][0]["content"][0]["text"], "hi");
}

// C14: a turn with nothing in it must still end, and say how.
TEST(ResponsesEncoder, C14AnEmptyAnswerEndsAsWell) {
  const AnswerSpec spec = Spec();
  Encoder encoder(spec, Identity());
  std::string out;
  encoder.Begin(0, kUsage, out);
  End(encoder, codec::Finish::kStop, out);
  EXPECT_EQ(TypesOf(out), (std::vector<std::string>{"created", "in_progress", "completed"}));
  EXPECT_EQ(EventsOf(out).back()["response"]["output"], json::array());
}

TEST(ResponsesEncoder, AFailureEndsTheStreamWithAFailedResponseAndDoesNotEndTheOpenItem) {
  const AnswerSpec spec = Spec();
  Encoder encoder(spec, Identity());
  std::string out;
  encoder.Begin(0, kUsage, out);
  encoder.OnEvent(0, Text(OutputKind::kReasoning, "so"), out);
  Call(encoder, "f", R"({"path": "/et)", /*is_cut=*/true, out);
  encoder.Fail(Status(ErrorCode::kInternal, "secret"), "req_1", out);
  EXPECT_EQ(out.find("secret"), std::string::npos);
  const std::vector<json> events = EventsOf(out);
  const json& last = events.back();
  EXPECT_EQ(last["type"], "response.failed");
  EXPECT_EQ(last["response"]["status"], "failed");
  EXPECT_EQ(last["response"]["error"]["code"], "server_error");
  EXPECT_EQ(last["response"]["output"].size(), 1u);
  for (const json& event : events) {
    if (event["type"] == "response.output_item.done") {
      EXPECT_EQ(event["item"]["type"], "reasoning");
    }
  }
}

TEST(ResponsesEncoder, AFailureBeforeTheFirstTokenIsAWholeStream) {
  const AnswerSpec spec = Spec();
  Encoder encoder(spec, Identity());
  std::string out;
  Status status(ErrorCode::kRateLimited, "slow down");
  encoder.Fail(status, "req_1", out);
  EXPECT_EQ(TypesOf(out), (std::vector<std::string>{"created", "in_progress", "failed"}));
  const json error = EventsOf(out).back()["response"]["error"];
  EXPECT_EQ(error["code"], "rate_limit_exceeded");
  EXPECT_EQ(error["message"], "slow down");
}

TEST(ResponsesEncoder, OnlyTheItemThatWasCutIsIncomplete) {
  const AnswerSpec spec = Spec(/*stream=*/false);
  Encoder encoder(spec, Identity());
  std::string out;
  Call(encoder, "f", "{}", /*is_cut=*/false, out);
  Call(encoder, "f", R"({"a": "v)", /*is_cut=*/true, out);
  End(encoder, codec::Finish::kLength, out);
  const json response = json::parse(out);
  EXPECT_EQ(response["status"], "incomplete");
  EXPECT_EQ(response["incomplete_details"]["reason"], "max_output_tokens");
  EXPECT_EQ(response["output"][0]["status"], "completed");
  EXPECT_EQ(response["output"][1]["status"], "incomplete");
  EXPECT_EQ(response["output"][1]["arguments"], R"({"a": "v)");
}

TEST(ResponsesEncoder, ASearchHasItsArgumentsAsAnObjectAndNoDeltas) {
  const AnswerSpec spec = Spec();
  Encoder encoder(spec, Identity());
  std::string out;
  encoder.Begin(0, kUsage, out);
  Call(encoder, "tool_search", R"({"query": "git"})", /*is_cut=*/false, out);
  Call(encoder, "tool_search", R"({"query": "gi)", /*is_cut=*/true, out);
  End(encoder, codec::Finish::kLength, out);
  EXPECT_EQ(TypesOf(out), (std::vector<std::string>{"created", "in_progress", "output_item.added",
                                                    "output_item.done", "output_item.added",
                                                    "output_item.done", "incomplete"}));
  const json output = EventsOf(out).back()["response"]["output"];
  EXPECT_EQ(output[0]["type"], "tool_search_call");
  EXPECT_EQ(output[0]["arguments"], (json{{"query", "git"}}));
  EXPECT_EQ(output[0]["execution"], "client");
  EXPECT_EQ(output[1]["arguments"], json::object());
  EXPECT_EQ(output[1]["status"], "incomplete");
}

// What a search is called with is read again when a later request refers to it.
TEST(ResponsesEncoder, ArgumentsTooDeepToBeReadAgainAreNone) {
  const AnswerSpec spec = Spec(/*stream=*/false);
  Encoder encoder(spec, Identity());
  std::string out;
  const std::string deep = R"({"a":)" + std::string(125, '[') + std::string(125, ']') + "}";
  Call(encoder, "tool_search", deep, /*is_cut=*/false, out);
  End(encoder, codec::Finish::kStop, out);
  EXPECT_EQ(json::parse(out)["output"][0]["arguments"], json::object());
}

TEST(ResponsesEncoder, LogprobsStandInTheDeltaAndInTheItem) {
  AnswerSpec spec = Spec();
  spec.logprobs = true;
  Encoder encoder(spec, Identity());
  std::string out;
  encoder.Begin(0, kUsage, out);
  for (const char* text : {"a", "b"}) {
    const TokenText token{.text = text, .logprob = -0.5f, .alternatives = {}};
    encoder.OnEvent(0, {.kind = OutputKind::kContent, .text = text, .logprobs = {&token, 1}}, out);
  }
  End(encoder, codec::Finish::kStop, out);
  const std::vector<json> events = EventsOf(out);
  EXPECT_EQ(events[4]["logprobs"].size(), 1u);
  EXPECT_EQ(events[4]["logprobs"][0]["token"], "a");
  const json& part = events.back()["response"]["output"][0]["content"][0];
  EXPECT_EQ(part["logprobs"].size(), 2u);
  EXPECT_EQ(part["logprobs"][1]["token"], "b");
}

TEST(ResponsesEncoder, WhatIsHeldIsCountedOfStreamsToo) {
  const AnswerSpec spec = Spec();
  Encoder encoder(spec, Identity());
  std::string out;
  encoder.Begin(0, kUsage, out);
  for (int i = 0; i < 100; ++i)
    encoder.OnEvent(0, Text(OutputKind::kContent, std::string(100, 'x')), out);
  EXPECT_GE(encoder.held_bytes(), 10'000);
  EXPECT_LT(encoder.held_bytes(), 12'000);
}

class ResponsesKeeping : public testing::Test {
 protected:
  AnswerSpec Kept(bool was_asked) {
    AnswerSpec spec = Spec(/*stream=*/false);
    spec.keep = {
        .store = &store_, .key = KeyId(1), .input = R"([{"role":"user"}])", .was_asked = was_asked};
    return spec;
  }

  ResponseStore store_{{.n_bytes = 4 * kKiB, .n_responses = 4, .age = Duration::Seconds(9)}};
};

TEST_F(ResponsesKeeping, AnAnswerIsKeptAsItWasGivenWithWhatItAnswers) {
  const AnswerSpec spec = Kept(/*was_asked=*/true);
  Encoder encoder(spec, Identity());
  std::string out;
  encoder.OnEvent(0, Text(OutputKind::kContent, "hi"), out);
  EXPECT_FALSE(store_.Find(KeyId(1), "resp_7"));
  End(encoder, codec::Finish::kStop, out);
  ASSERT_TRUE(store_.Find(KeyId(1), "resp_7"));
  EXPECT_EQ(store_.Find(KeyId(1), "resp_7")->ToText(), out);
  EXPECT_EQ(store_.Find(KeyId(1), "resp_7")->input, R"([{"role":"user"}])");
  EXPECT_TRUE(json::parse(out)["store"].get<bool>());
  EXPECT_TRUE(store_.FindItem(KeyId(1), "msg_resp_7_0"));
}

TEST_F(ResponsesKeeping, KeptUnaskedIsAnsweredFalse) {
  const AnswerSpec spec = Kept(/*was_asked=*/false);
  Encoder encoder(spec, Identity());
  std::string out;
  End(encoder, codec::Finish::kStop, out);
  EXPECT_FALSE(json::parse(out)["store"].get<bool>());
  EXPECT_TRUE(store_.Find(KeyId(1), "resp_7"));
}

TEST_F(ResponsesKeeping, AnAnswerThatGrewTooLongIsNotKeptAndSaysSo) {
  const AnswerSpec spec = Kept(/*was_asked=*/true);
  Encoder encoder(spec, Identity());
  std::string out;
  encoder.OnEvent(0, Text(OutputKind::kContent, std::string(5000, 'x')), out);
  End(encoder, codec::Finish::kStop, out);
  EXPECT_FALSE(json::parse(out)["store"].get<bool>());
  EXPECT_FALSE(store_.Find(KeyId(1), "resp_7"));
}

TEST_F(ResponsesKeeping, AFailedAnswerIsNotKept) {
  const AnswerSpec spec = Kept(/*was_asked=*/true);
  Encoder encoder(spec, Identity());
  std::string out;
  encoder.OnEvent(0, Text(OutputKind::kContent, "hi"), out);
  encoder.Fail(Status(ErrorCode::kInternal, "x"), "req_1", out);
  EXPECT_EQ(store_.load().n_responses, 0);
}

}  // namespace
}  // namespace sluice::codec::responses
