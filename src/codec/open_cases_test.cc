// Open cases of other servers (spec open-cases.md §3.1-3.5) that show in what a request becomes and
// how it is answered, in every API that can meet them. The table of all cases: tests/README.md.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "codec/joined_answer_test_impl.h"

namespace sluice::codec {
namespace {

constexpr std::string_view kOpen = "\n\n<｜DSML｜ calls>\n";
constexpr std::string_view kClose = "\n</｜DSML｜ calls>";
constexpr std::string_view kCallOfF =
    "<｜DSML｜ invoke name=\"f\">\n"
    "<｜DSML｜ parameter name=\"a\" string=\"false\">1</｜DSML｜ parameter>\n"
    "</｜DSML｜ invoke>";

std::vector<TokenId> TokensOf(std::string_view text) {
  std::vector<TokenId> ids;
  SampleFormat().bpe().EncodeWithAdded(text, ids);
  return ids;
}

struct Ask {
  Api api;
  TestJson members;
  std::string output;
  wire::FinishReason finish = wire::FinishReason::kEnd;
};

// The body of the answer, one token an event.
std::string BodyOf(const Ask& ask, bool stream) {
  TestJson request = RequestOf(ask.api, ask.members);
  request["stream"] = stream;
  Result<Prepared> prepared = PrepareAs(ask.api, request);
  EXPECT_TRUE(prepared) << prepared.status().ToString();
  return prepared ? Play(ask.api, *prepared, TokensOf(ask.output), {1}, ask.finish) : "{}";
}

Joined JoinedOf(const Ask& ask, bool stream) {
  return codec::JoinedOf(ask.api, stream, BodyOf(ask, stream));
}

TestJson With(TestJson members, const TestJson& more) {
  members.update(more);
  return members;
}

std::string PromptOf(Api api, const TestJson& members) {
  Result<Prepared> prepared = PrepareAs(api, RequestOf(api, members));
  EXPECT_TRUE(prepared) << prepared.status().ToString();
  return prepared ? TextOf(*prepared->generate.prompt) : "";
}

TEST(OpenCases, C06ACallThatALimitCutsIsNeverOneToBeMade) {
  // vLLM-2080Ti#125: "partial call reported as complete".
  const std::string cut = "t</think>" + std::string(kOpen) +
                          std::string(kCallOfF.substr(0, kCallOfF.find("\n</｜DSML｜ invoke>")));
  const std::string_view finishes[] = {"length", "max_tokens", "incomplete"};
  for (size_t i = 0; i < std::size(kToolApis); ++i) {
    const Ask ask{.api = kToolApis[i],
                  .members = ToolsOf(kToolApis[i]),
                  .output = cut,
                  .finish = wire::FinishReason::kLength};
    for (bool stream : {false, true}) {
      const Joined joined = JoinedOf(ask, stream);
      EXPECT_EQ(joined.finish, finishes[i]);
      ASSERT_EQ(joined.calls.size(), 1u) << "no second one at the end";
      EXPECT_EQ(joined.calls[0].second, ask.api == Api::kMessages ? "{}" : "{\"a\": 1");
    }
  }
  const std::string item = BodyOf({.api = Api::kResponses,
                                   .members = ToolsOf(Api::kResponses),
                                   .output = cut,
                                   .finish = wire::FinishReason::kLength},
                                  /*stream=*/false);
  EXPECT_EQ(TestJson::parse(item)["output"].back()["status"], "incomplete");
}

TestJson ChoiceOf(Api api, bool is_named) {
  if (api == Api::kMessages) {
    if (is_named) return {{"tool_choice", {{"type", "tool"}, {"name", "f"}}}};
    return {{"tool_choice", {{"type", "any"}}}};
  }
  if (!is_named) return {{"tool_choice", "required"}};
  if (api == Api::kResponses) return {{"tool_choice", {{"type", "function"}, {"name", "f"}}}};
  return {{"tool_choice", {{"type", "function"}, {"function", {{"name", "f"}}}}}};
}

TEST(OpenCases, C07ARequiredAndANamedCallEndAlikeStreamedAndWhole) {
  // vllm#25054: "four different answers".
  const std::string_view finishes[] = {"tool_calls", "tool_use", "completed"};
  for (size_t i = 0; i < std::size(kToolApis); ++i) {
    const Api api = kToolApis[i];
    for (int way = 0; way < 8; ++way) {
      const bool is_named = (way & 1) != 0, thinks = (way & 2) != 0, stream = (way & 4) != 0;
      Ask ask{.api = api, .members = With(ToolsOf(api), ChoiceOf(api, is_named)), .output = {}};
      if (!thinks) ask.members.update(WithoutThinking(api));
      // Without thinking the prompt has opened the block already.
      ask.output = thinks ? "t</think>" + std::string(kOpen) : "";
      ask.output += std::string(kCallOfF) + std::string(kClose);
      const Joined joined = JoinedOf(ask, stream);
      EXPECT_EQ(joined.finish, finishes[i]) << ask.members;
      ASSERT_EQ(joined.calls.size(), 1u) << ask.members;
      EXPECT_EQ(joined.calls[0].first, "f");
      EXPECT_EQ(TestJson::parse(joined.calls[0].second), TestJson({{"a", 1}}));
    }
  }
}

TEST(OpenCases, C10AToolWhoseParametersAreNullTakesNone) {
  // pi#4310: "opaque 400".
  for (const Api api : {Api::kChat, Api::kResponses}) {
    const std::string prompt = PromptOf(api, {{"tools", {ToolOf(api, "f", nullptr)}}});
    EXPECT_NE(prompt.find(R"({"name": "f", "description": "", "parameters": {}})"),
              std::string::npos);
  }
  // Messages wants a schema of every tool, and says which has none.
  const TestJson tools = {{"tools", {ToolOf(Api::kMessages, "f", nullptr)}}};
  const Result<Prepared> refused = PrepareAs(Api::kMessages, RequestOf(Api::kMessages, tools));
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("input_schema"), std::string::npos)
      << refused.error().message();
}

TEST(OpenCases, C12EachEffortHasTheNumberOfThisModel) {
  // vllm-ascend-dsv4#72: "template ignores effort and mode"; earlier versions had texts of their
  // own.
  const auto prompt_of = [](const char* effort) {
    return PromptOf(Api::kChat, {{"reasoning_effort", effort}});
  };
  const auto line_of = [](int n) { return "Reasoning Effort: " + std::to_string(n) + " (range"; };
  for (const char* effort : {"minimal", "low"}) {
    EXPECT_NE(prompt_of(effort).find(line_of(50)), std::string::npos) << effort;
  }
  for (const char* effort : {"medium", "high", "xhigh"}) {
    EXPECT_NE(prompt_of(effort).find(line_of(75)), std::string::npos) << effort;
  }
  for (const char* effort : {"ultra", "max"}) {
    EXPECT_NE(prompt_of(effort).find(line_of(100)), std::string::npos) << effort;
  }
  EXPECT_EQ(prompt_of("none"), "<｜begin▁of▁sentence｜><｜User｜>q<｜Assistant｜></think>");
  EXPECT_TRUE(prompt_of("high").ends_with("<think>"));
}

TEST(OpenCases, C16TheWordImageInATextIsAWord) {
  // MiaAI#165: "400".
  const std::string text = "Write <image> or <｜deepseek_image｜> where it belongs.";
  for (const Api api : kApis) {
    TestJson members = api == Api::kCompletions ? TestJson({{"prompt", text}})
                       : api == Api::kMessages  ? TestJson({{"system", text}})
                       : api == Api::kResponses ? TestJson({{"instructions", text}})
                                                : TestJson::object();
    TestJson request = RequestOf(api, members);
    if (api == Api::kChat) {
      request["messages"].insert(request["messages"].begin(),
                                 TestJson({{"role", "system"}, {"content", text}}));
    }
    Result<Prepared> prepared = PrepareAs(api, request);
    ASSERT_TRUE(prepared) << prepared.status().ToString();
    EXPECT_NE(TextOf(*prepared->generate.prompt).find(text), std::string::npos);
    EXPECT_TRUE(prepared->images.empty());
    const TokenId mark = SampleFormat().control(deepseek_v41::Control::kImage);
    EXPECT_EQ(std::ranges::count(*prepared->generate.prompt, mark), 0);
  }
}

TEST(OpenCases, C19ReasoningOnChatIsReasoningContent) {
  // codex#3721: "client looks for another key and shows nothing".
  const Ask ask{.api = Api::kChat, .members = TestJson::object(), .output = "why</think>so"};
  const TestJson whole = TestJson::parse(BodyOf(ask, /*stream=*/false));
  const TestJson& message = whole["choices"][0]["message"];
  EXPECT_EQ(message["reasoning_content"], "why");
  EXPECT_FALSE(message.contains("reasoning"));
  std::string streamed;
  for (const TestJson& chunk : DataOf(BodyOf(ask, /*stream=*/true))) {
    for (const TestJson& choice : chunk["choices"]) {
      EXPECT_FALSE(choice["delta"].contains("reasoning"));
      streamed += TextIn(choice["delta"], "reasoning_content");
    }
  }
  EXPECT_EQ(streamed, "why");
}

// A second turn after the result of a call whose id is `call_id`.
TestJson SecondTurn(Api api, const std::string& call_id, bool has_reasoning) {
  TestJson members = ToolsOf(api);
  if (api == Api::kChat) {
    TestJson turn = {{"role", "assistant"}, {"content", ""}};
    if (has_reasoning) turn["reasoning_content"] = "why";
    turn["tool_calls"] = {{{"id", call_id},
                           {"type", "function"},
                           {"function", {{"name", "f"}, {"arguments", "{}"}}}}};
    members["messages"] = {{{"role", "user"}, {"content", "q"}},
                           turn,
                           {{"role", "tool"}, {"tool_call_id", call_id}, {"content", "r"}}};
  } else if (api == Api::kMessages) {
    TestJson blocks = TestJson::array();
    if (has_reasoning) {
      blocks.push_back({{"type", "thinking"}, {"thinking", "why"}, {"signature", ""}});
    }
    blocks.push_back(
        {{"type", "tool_use"}, {"id", call_id}, {"name", "f"}, {"input", TestJson::object()}});
    const TestJson result = {{"type", "tool_result"}, {"tool_use_id", call_id}, {"content", "r"}};
    members["messages"] = {{{"role", "user"}, {"content", "q"}},
                           {{"role", "assistant"}, {"content", blocks}},
                           {{"role", "user"}, {"content", TestJson::array({result})}}};
  } else {
    members["input"] = TestJson::array({{{"role", "user"}, {"content", "q"}}});
    if (has_reasoning) {
      const TestJson part = {{"type", "reasoning_text"}, {"text", "why"}};
      members["input"].push_back({{"type", "reasoning"},
                                  {"summary", TestJson::array()},
                                  {"content", TestJson::array({part})}});
    }
    members["input"].push_back(
        {{"type", "function_call"}, {"call_id", call_id}, {"name", "f"}, {"arguments", "{}"}});
    members["input"].push_back(
        {{"type", "function_call_output"}, {"call_id", call_id}, {"output", "r"}});
  }
  return RequestOf(api, members);
}

TEST(OpenCases, C24HistoryIsTakenWithAndWithoutItsReasoningAndTheLackIsTold) {
  // new-api#4806: "hard 400".
  const std::string marked = "call_00_ET_3mnYSNnQVSAA8LMuedgL9601";  // called without a thought
  for (const Api api : kToolApis) {
    SCOPED_TRACE(DialectOf(api).name);
    const Result<Prepared> with = PrepareAs(api, SecondTurn(api, "a", true));
    const Result<Prepared> without = PrepareAs(api, SecondTurn(api, "a", false));
    ASSERT_TRUE(with && without);
    EXPECT_NE(TextOf(*with->generate.prompt).find("<think>why</think>"), std::string::npos);
    EXPECT_NE(TextOf(*without->generate.prompt).find("<think></think>"), std::string::npos);
    EXPECT_EQ(*without->generate.prompt,
              *PrepareAs(api, SecondTurn(api, "a", false))->generate.prompt);
    EXPECT_EQ(with->n_missing_reasoning, 0);
    EXPECT_EQ(without->n_missing_reasoning, 1);
    EXPECT_EQ(PrepareAs(api, SecondTurn(api, marked, false))->n_missing_reasoning, 0);
    // The strict mode, as the hosted service was.
    const Profile strict{.missing_reasoning_reject = true};
    EXPECT_TRUE(PrepareAs(api, SecondTurn(api, "a", true), strict));
    EXPECT_FALSE(PrepareAs(api, SecondTurn(api, "a", false), strict));
  }
}

TEST(OpenCases, C28WithoutALimitTheDefaultIsThatOfTheMode) {
  EXPECT_EQ(PrepareAs(Api::kChat, RequestOf(Api::kChat))->generate.n_max, 65'536);
  EXPECT_EQ(
      PrepareAs(Api::kChat, RequestOf(Api::kChat, {{"reasoning_effort", "max"}}))->generate.n_max,
      131'072);
  EXPECT_EQ(
      PrepareAs(Api::kChat, RequestOf(Api::kChat, WithoutThinking(Api::kChat)))->generate.n_max,
      8'192);
}

}  // namespace
}  // namespace sluice::codec
