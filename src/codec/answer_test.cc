#include "codec/answer.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "codec/sample_format_test_impl.h"

namespace sluice::codec {
namespace {

using nlohmann::json;

AnswerSpec Spec() {
  AnswerSpec spec;
  spec.model = "deepseek-flash";
  spec.thinking = false;
  spec.start = OutputStart::kContent;
  spec.stream = true;
  return spec;
}

Answer Make(AnswerSpec spec) {
  return Answer(Dialects()[0], SampleFormat(), std::move(spec),
                {.id = "abc", .created = {1'700'000'000'000'000'000}, .fingerprint = "fp_1"});
}

wire::TokenEvent Text(std::string_view text) {
  wire::TokenEvent event;
  std::vector<TokenId> ids;
  SampleFormat().bpe().EncodeWithAdded(text, ids);
  event.tokens.assign(ids.begin(), ids.end());
  return event;
}

wire::TokenEvent EndOf(std::string_view text,
                       wire::Usage usage,
                       wire::FinishReason finish = wire::FinishReason::kEnd) {
  wire::TokenEvent event = Text(text);
  event.end = std::make_unique<wire::EventEnd>();
  event.end->finish = finish;
  event.end->usage = usage;
  return event;
}

std::vector<std::string> Frames(const std::string& stream) {
  std::vector<std::string> frames;
  for (size_t at = 0; at < stream.size();) {
    size_t end = stream.find("\n\n", at);
    EXPECT_NE(end, std::string::npos);
    frames.push_back(stream.substr(at, end - at));
    at = end + 2;
  }
  return frames;
}

json Data(const std::string& frame) {
  EXPECT_TRUE(frame.starts_with("data: ")) << frame;
  return json::parse(frame.substr(6));
}

TEST(Answer, StreamsTheDocumentedFrames) {
  Answer answer = Make(Spec());
  std::string out;
  EXPECT_EQ(answer.OnEvent(0, Text("Hi \"x\"\n."), out), Answer::Next::kMore);
  const std::string head =
      R"(data: {"id":"chatcmpl-abc","object":"chat.completion.chunk","created":1700000000,)"
      R"("model":"deepseek-flash",)"
      R"("system_fingerprint":"fp_1","choices":[{"index":0,"delta":)";
  EXPECT_EQ(out,
            head + R"({"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]})" +
                "\n\n" + head +
                R"({"content":"Hi \"x\"\n."},"logprobs":null,"finish_reason":null}]})" + "\n\n");
  out.clear();
  EXPECT_EQ(answer.OnEvent(0, EndOf("", {.n_prompt = 10, .n_cached = 4, .n_completion = 7}), out),
            Answer::Next::kChoiceDone);
  answer.Finish(out);
  EXPECT_EQ(
      out,
      head +
          R"({"content":""},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":10,)"
          R"("completion_tokens":7,"total_tokens":17,"prompt_tokens_details":{"cached_tokens":4},)"
          R"("prompt_cache_hit_tokens":4,"prompt_cache_miss_tokens":6}})"
          "\n\ndata: [DONE]\n\n");
}

TEST(Answer, AnswersWholeWithTheSameNumbers) {
  AnswerSpec spec = Spec();
  spec.stream = false;
  Answer answer = Make(spec);
  std::string out;
  answer.OnEvent(0, Text("Hi"), out);
  answer.OnEvent(
      0, EndOf("", {.n_prompt = 10, .n_cached = 4, .n_completion = 2}, wire::FinishReason::kLength),
      out);
  EXPECT_EQ(out, "");
  answer.Finish(out);
  EXPECT_EQ(out,
            R"({"id":"chatcmpl-abc","object":"chat.completion","created":1700000000,)"
            R"("model":"deepseek-flash",)"
            R"("system_fingerprint":"fp_1","choices":[{"index":0,"message":{"role":"assistant",)"
            R"("content":"Hi"},)"
            R"("logprobs":null,"finish_reason":"length"}],"usage":{"prompt_tokens":10,)"
            R"("completion_tokens":2,)"
            R"("total_tokens":12,"prompt_tokens_details":{"cached_tokens":4},)"
            R"("prompt_cache_hit_tokens":4,)"
            R"("prompt_cache_miss_tokens":6}})");
}

TEST(Answer, C27TheUsageChunkIsOfItsOwnAndHasNoChoices) {
  // mlx-dspark#37: "usage chunk with a non-empty `choices`".
  AnswerSpec spec = Spec();
  spec.include_usage = true;
  Answer answer = Make(spec);
  std::string out;
  answer.OnEvent(0, EndOf("Hi", {.n_prompt = 3, .n_completion = 2}), out);
  answer.Finish(out);
  std::vector<std::string> frames = Frames(out);
  ASSERT_EQ(frames.size(), 5u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(Data(frames[i]).contains("usage"));
    EXPECT_TRUE(Data(frames[i])["usage"].is_null());
    EXPECT_EQ(Data(frames[i])["choices"].size(), 1u);
  }
  EXPECT_EQ(Data(frames[3])["choices"], json::array());
  EXPECT_EQ(Data(frames[3])["usage"]["total_tokens"], 5);
  EXPECT_EQ(frames[4], "data: [DONE]");
}

TEST(Answer, C08EachOfSeveralChoicesFinishesExactlyOnce) {
  // sglang#8417: "two finish chunks for one choice, none for the other".
  AnswerSpec spec = Spec();
  spec.n_choices = 3;
  spec.stops = {"STOP"};
  Answer answer = Make(spec);
  std::string out;
  answer.OnEvent(1, Text("b"), out);
  answer.OnEvent(0, Text("a"), out);
  EXPECT_EQ(answer.OnEvent(1, Text("b STOP b"), out), Answer::Next::kCancel);
  EXPECT_EQ(answer.OnEvent(2, EndOf("c", {.n_prompt = 9, .n_cached = 8, .n_completion = 1}), out),
            Answer::Next::kChoiceDone);
  EXPECT_EQ(answer.OnEvent(1, Text("more"), out), Answer::Next::kMore);
  wire::TokenEvent cancelled =
      EndOf("", {.n_prompt = 9, .n_cached = 8, .n_completion = 20}, wire::FinishReason::kError);
  EXPECT_EQ(answer.OnEvent(1, cancelled, out), Answer::Next::kChoiceDone);
  EXPECT_EQ(answer.OnEvent(0, EndOf("a", {.n_prompt = 9, .n_cached = 2, .n_completion = 2}), out),
            Answer::Next::kChoiceDone);
  answer.Finish(out);

  std::vector<int> n_finish(3), n_role(3);
  std::vector<std::string> text(3);
  json usage;
  for (const std::string& frame : Frames(out)) {
    if (frame == "data: [DONE]") continue;
    json chunk = Data(frame);
    const json& choice = chunk["choices"][0];
    size_t i = choice["index"];
    EXPECT_EQ(n_finish[i], 0) << "nothing follows a finish_reason";
    n_finish[i] += choice["finish_reason"].is_null() ? 0 : 1;
    n_role[i] += choice["delta"].contains("role") ? 1 : 0;
    text[i] += choice["delta"]["content"].get<std::string>();
    if (chunk.contains("usage")) {
      EXPECT_TRUE(usage.is_null());
      usage = chunk["usage"];
    }
  }
  EXPECT_EQ(n_finish, std::vector<int>({1, 1, 1}));
  EXPECT_EQ(n_role, std::vector<int>({1, 1, 1}));
  EXPECT_EQ(text, std::vector<std::string>({"aa", "bb ", "c"}));
  // The prompt counts once, its cached part as the first choice found it; "bb STOP" has 7 tokens.
  EXPECT_EQ(usage["prompt_tokens"], 9);
  EXPECT_EQ(usage["prompt_cache_hit_tokens"], 2);
  EXPECT_EQ(usage["completion_tokens"], 2 + 7 + 1);
}

TEST(Answer, AStopStringInTheTerminalEventNeedsNoCancel) {
  AnswerSpec spec = Spec();
  spec.stops = {"b"};
  Answer answer = Make(spec);
  std::string out;
  EXPECT_EQ(
      answer.OnEvent(
          0, EndOf("abc", {.n_prompt = 1, .n_completion = 3}, wire::FinishReason::kLength), out),
      Answer::Next::kChoiceDone);
  answer.Finish(out);
  EXPECT_EQ(answer.usage().n_completion, 2);
  EXPECT_NE(out.find(R"("finish_reason":"stop")"), std::string::npos);
}

TEST(Answer, CountsReasoningAsTokensOfTheEmittedText) {
  AnswerSpec spec = Spec();
  spec.thinking = true;
  spec.start = OutputStart::kReasoning;
  Answer answer = Make(spec);
  std::string out;
  answer.OnEvent(0, EndOf("\nplan\n</think>\nok", {.n_prompt = 1, .n_completion = 17}), out);
  answer.Finish(out);
  EXPECT_EQ(answer.usage().n_reasoning, 4);
  std::vector<std::string> frames = Frames(out);
  ASSERT_EQ(frames.size(), 5u);
  EXPECT_EQ(Data(frames[0])["choices"][0]["delta"],
            json({{"role", "assistant"}, {"content", nullptr}, {"reasoning_content", ""}}));
  EXPECT_EQ(Data(frames[1])["choices"][0]["delta"],
            json({{"content", nullptr}, {"reasoning_content", "plan"}}));
  EXPECT_EQ(Data(frames[2])["choices"][0]["delta"],
            json({{"content", "ok"}, {"reasoning_content", nullptr}}));
  EXPECT_EQ(Data(frames[3])["usage"]["completion_tokens_details"]["reasoning_tokens"], 4);
}

AnswerSpec LogprobSpec() {
  AnswerSpec spec = Spec();
  spec.logprobs = true;
  spec.n_top_logprobs = 1;
  return spec;
}

wire::TokenEvent WithLogprobs(wire::TokenEvent event) {
  for (TokenId token : event.tokens) {
    event.logprobs.push_back(
        {.logprob = -0.25f, .alternatives = {{.token = token, .logprob = -0.25f}}});
  }
  return event;
}

TEST(Answer, WritesOneLogprobEntryPerTokenOfVisibleText) {
  Answer answer = Make(LogprobSpec());
  std::string out;
  answer.OnEvent(0, WithLogprobs(Text("a\xC3")), out);
  answer.OnEvent(0, WithLogprobs(Text("\xA9")), out);
  std::vector<std::string> frames = Frames(out);
  ASSERT_EQ(frames.size(), 3u);
  EXPECT_EQ(Data(frames[0])["choices"][0]["logprobs"], json());
  EXPECT_EQ(Data(frames[1])["choices"][0]["logprobs"],
            json::parse(R"({"content":[{"token":"a","logprob":-0.25,"bytes":[97],
                            "top_logprobs":[{"token":"a","logprob":-0.25,"bytes":[97]}]}]})"));
  json entries = Data(frames[2])["choices"][0]["logprobs"]["content"];
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0]["token"], "\\xc3");
  EXPECT_EQ(entries[0]["bytes"], json({195}));
  EXPECT_EQ(entries[1]["token"], "\\xa9");
}

TEST(Answer, WholeAnswerCarriesTheSameLogprobsByKind) {
  AnswerSpec spec = LogprobSpec();
  spec.stream = false;
  spec.thinking = true;
  spec.start = OutputStart::kReasoning;
  Answer answer = Make(spec);
  std::string out;
  answer.OnEvent(0, WithLogprobs(Text("r</think>ab")), out);
  answer.OnEvent(0, EndOf("", {.n_prompt = 1, .n_completion = 11}), out);
  answer.Finish(out);
  json logprobs = json::parse(out)["choices"][0]["logprobs"];
  EXPECT_EQ(logprobs["reasoning_content"].size(), 1u);
  EXPECT_EQ(logprobs["content"].size(), 2u);
}

TEST(Answer, ALogprobThatIsNoNumberIsBelowTheReportedRange) {
  Answer answer = Make(LogprobSpec());
  std::string out;
  wire::TokenEvent event = Text("ab");
  event.logprobs = {{.logprob = std::numeric_limits<float>::quiet_NaN(), .alternatives = {}},
                    {.logprob = -std::numeric_limits<float>::infinity(), .alternatives = {}}};
  answer.OnEvent(0, event, out);
  json entries = Data(Frames(out)[1])["choices"][0]["logprobs"]["content"];
  EXPECT_EQ(entries[0]["logprob"], -9999.0);
  EXPECT_EQ(entries[1]["logprob"], -9999.0);
}

TEST(Answer, AnErrorInAStreamIsAFrameWithoutAnEndMark) {
  Answer answer = Make(Spec());
  std::string out;
  answer.Fail(Status(ErrorCode::kInternal, "secret at 0x7fff"), "req-1", out);
  std::vector<std::string> frames = Frames(out);
  ASSERT_EQ(frames.size(), 1u);
  json error = Data(frames[0])["error"];
  EXPECT_EQ(error["type"], "internal_error");
  EXPECT_EQ(error["code"], "internal_error");
  EXPECT_TRUE(error["param"].is_null());
  EXPECT_EQ(error["message"].get<std::string>().find("0x7fff"), std::string::npos);
  EXPECT_NE(error["message"].get<std::string>().find("req-1"), std::string::npos);
}

TEST(Answer, AnErrorOutsideAStreamIsTheErrorBody) {
  AnswerSpec spec = Spec();
  spec.stream = false;
  Answer answer = Make(spec);
  std::string out;
  answer.Fail(Status(ErrorCode::kDeadlineExceeded, "too late"), "req-1", out);
  EXPECT_EQ(out, R"({"error":{"message":"too late","type":"timeout_error","param":null,)"
                 R"("code":"deadline_exceeded"}})");
}

TEST(Answer, HeartbeatIsACommentInAStreamAndABlankLineBeforeABody) {
  std::string out;
  Make(Spec()).Heartbeat(out);
  EXPECT_EQ(out, ": keep-alive\n\n");
  AnswerSpec spec = Spec();
  spec.stream = false;
  out.clear();
  Make(spec).Heartbeat(out);
  EXPECT_EQ(out, "\n");
}

TEST(Answer, TheModelNameIsEscaped) {
  AnswerSpec spec = Spec();
  spec.model = "a\"b";
  Answer answer = Make(spec);
  std::string out;
  answer.OnEvent(0, Text("x"), out);
  EXPECT_EQ(Data(Frames(out)[0])["model"], "a\"b");
}

// Two calls in one block, as the model writes them.
constexpr std::string_view kTwoCalls =
    "text\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"f\">\n<｜DSML｜ parameter name=\"a\" "
    "string=\"true\">x</｜DSML｜ parameter>\n</｜DSML｜ invoke>\n<｜DSML｜ invoke name=\"g\">\n\n"
    "</｜DSML｜ invoke>\n</｜DSML｜ calls>";

AnswerSpec CallSpec(bool stream) {
  AnswerSpec spec = Spec();
  spec.stream = stream;
  spec.parses_calls = true;
  return spec;
}

TEST(Answer, C03C09CallsAreTheSameStreamedAndWhole) {
  // smg#1030: "buffered passes, streamed yields no call"; litellm#37792: "both at index:0".
  std::string whole, stream;
  Answer buffered = Make(CallSpec(false));
  EXPECT_EQ(buffered.OnEvent(0, Text(kTwoCalls), whole), Answer::Next::kCancel);
  buffered.Finish(whole);
  const json choice = json::parse(whole)["choices"][0];
  const json& calls = choice["message"]["tool_calls"];
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  EXPECT_EQ(choice["message"]["content"], "text");
  ASSERT_EQ(calls.size(), 2u);

  Answer streamed = Make(CallSpec(true));
  for (TokenId token : Text(kTwoCalls).tokens) {
    wire::TokenEvent event;
    event.tokens.push_back(token);
    streamed.OnEvent(0, event, stream);
  }
  streamed.Finish(stream);
  json joined = json::array();
  for (const std::string& frame : Frames(stream)) {
    if (frame == "data: [DONE]") continue;
    EXPECT_EQ(Data(frame)["id"], "chatcmpl-abc");
    const json delta = Data(frame)["choices"][0]["delta"];
    if (!delta.contains("tool_calls")) continue;
    const json& call = delta["tool_calls"][0];
    if (call.contains("id")) {
      joined.push_back(call);
      continue;
    }
    json& function = joined[call["index"].get<size_t>()]["function"];
    function["arguments"] =
        function["arguments"].get<std::string>() + call["function"]["arguments"].get<std::string>();
  }
  EXPECT_EQ(joined, calls);
  EXPECT_EQ(calls[0]["index"], 0);
  EXPECT_EQ(calls[0]["function"], (json{{"name", "f"}, {"arguments", "{\"a\": \"x\"}"}}));
  EXPECT_EQ(calls[1]["index"], 1);
  EXPECT_EQ(calls[1]["function"], (json{{"name", "g"}, {"arguments", "{}"}}));
  EXPECT_NE(calls[0]["id"], calls[1]["id"]);
}

TEST(Answer, C07AForcedCallEndsAsEveryCallDoes) {
  // vllm#25054: "four different answers".
  for (bool stream : {false, true}) {
    AnswerSpec spec = CallSpec(stream);
    spec.starts_in_calls = true;
    std::string out;
    Answer answer = Make(spec);
    const std::string_view inside = kTwoCalls.substr(kTwoCalls.find("<｜DSML｜ invoke"));
    answer.OnEvent(0, Text(inside), out);
    EXPECT_EQ(answer.finish(0), Finish::kToolCalls);
    answer.OnEvent(0, EndOf("", {.n_prompt = 1, .n_completion = 9}, wire::FinishReason::kError),
                   out);
    answer.Finish(out);
    EXPECT_NE(out.find("\"finish_reason\":\"tool_calls\""), std::string::npos);
  }
}

TEST(Answer, CallsThatEndAtTheLimitEndAtTheLimit) {
  for (bool in_one_event : {false, true}) {
    std::string out;
    Answer answer = Make(CallSpec(false));
    wire::TokenEvent last = EndOf(in_one_event ? kTwoCalls : "", {.n_prompt = 1, .n_completion = 9},
                                  wire::FinishReason::kLength);
    if (!in_one_event) answer.OnEvent(0, Text(kTwoCalls), out);
    EXPECT_EQ(answer.OnEvent(0, last, out), Answer::Next::kChoiceDone);
    answer.Finish(out);
    EXPECT_EQ(json::parse(out)["choices"][0]["finish_reason"], "length");
  }
}

TEST(Answer, ACallWithoutAThoughtIsMarked) {
  AnswerSpec spec = CallSpec(false);
  spec.thinking = true;
  spec.start = OutputStart::kReasoning;
  auto id_of = [&](const std::string& text) {
    std::string out;
    Answer answer = Make(spec);
    answer.OnEvent(0, Text(text + std::string(kTwoCalls)), out);
    answer.Finish(out);
    return json::parse(out)["choices"][0]["message"]["tool_calls"][0]["id"].get<std::string>();
  };
  EXPECT_TRUE(id_of("</think>").starts_with("call_00_ET_"));
  EXPECT_FALSE(id_of("a</think>").starts_with("call_00_ET_"));
}

}  // namespace
}  // namespace sluice::codec
