#include "codec/format/deepseek_v41/render.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/json_writer.h"
#include "base/random_test_impl.h"
#include "base/utf8.h"
#include "codec/cut_format_test_impl.h"
#include "codec/format/lexer_run_test_impl.h"
#include "codec/sample_format_test_impl.h"

namespace sluice::codec::deepseek_v41 {
namespace {

Message User(std::string text) { return {.role = Role::kUser, .text = std::move(text)}; }
Message System(std::string text) { return {.role = Role::kSystem, .text = std::move(text)}; }
Message Result(std::string id, std::string text) {
  return {.role = Role::kTool, .text = std::move(text), .tool_call_id = std::move(id)};
}
Message Assistant(std::string text) { return {.role = Role::kAssistant, .text = std::move(text)}; }

Tool Noop() { return {.name = "f", .description = "d", .parameters = {}}; }

std::string TextOf(const Conversation& conversation) {
  return Render(conversation, Profile()).text;
}

std::vector<TokenId> IdsOf(const Conversation& conversation) {
  return Encode(Render(conversation, Profile()), SampleFormat()).ids;
}

size_t Count(std::string_view text, std::string_view wanted) {
  size_t n = 0;
  for (size_t at = text.find(wanted); at != std::string_view::npos; at = text.find(wanted, at + 1))
    ++n;
  return n;
}

TEST(Render, C11ToolsStandInTheSystemMessageThatIsThere) {
  // vllm#58280: "tools rendered in a synthetic extra leading system message".
  Conversation conversation;
  conversation.messages = {System("be kind"), User("hi")};
  conversation.tools = {Noop()};
  const std::string text = TextOf(conversation);
  EXPECT_EQ(Count(text, "<｜System｜>"), 1u);
  EXPECT_LT(text.find("be kind"), text.find("## Tools"));
  EXPECT_LT(text.find("## Tools"), text.find("<｜User｜>"));
}

TEST(Render, C12C13EffortIsANumberAndSystemTextsKeepTheirPlace) {
  // SpecForge#887: "rendered with the V4 rules".
  Conversation conversation;
  conversation.messages = {User("a"), System("mid"), User("b")};
  conversation.effort = 37;
  EXPECT_EQ(TextOf(conversation),
            "<｜begin▁of▁sentence｜><｜System｜>Reasoning Effort: 37 (range 1-100, the higher the "
            "value, the more thorough the reasoning)\n\n<｜User｜>a<｜System｜>mid<｜User｜>b"
            "<｜Assistant｜><think>");
  conversation.thinking = false;
  EXPECT_EQ(TextOf(conversation),
            "<｜begin▁of▁sentence｜><｜User｜>a<｜System｜>mid<｜User｜>b<｜Assistant｜></think>");
}

TEST(Render, ResultsStandInTheOrderOfTheirCalls) {
  Conversation conversation;
  Message caller = Assistant("");
  caller.calls = {{.id = "b", .name = "f", .arguments = "{}"},
                  {.id = "a", .name = "f", .arguments = "{}"}};
  conversation.thinking = false;
  conversation.tools = {Noop()};
  conversation.messages = {User("q"), caller, Result("a", "of a"), User("between"),
                           Result("b", "of b")};
  const std::string text = TextOf(conversation);
  EXPECT_NE(
      text.find("<tool_result>of b</tool_result>\n\nbetween\n\n<tool_result>of a</tool_result>"),
      std::string::npos)
      << text;
}

TEST(Render, HistoryWithoutToolsHasNoReasoningUnlessTheProfileKeepsIt) {
  Conversation conversation;
  Message turn = Assistant("a");
  turn.reasoning = "thought";
  conversation.messages = {User("q"), turn, User("r")};
  EXPECT_EQ(TextOf(conversation).find("thought"), std::string::npos);
  EXPECT_NE(
      Render(conversation, {.history_reasoning_always = true}).text.find("<think>thought</think>a"),
      std::string::npos);
}

TEST(Render, AForcedCallIsOpenedOnlyWithoutThinking) {
  Conversation conversation;
  conversation.messages = {User("q")};
  conversation.tools = {Noop()};
  conversation.tool_choice = ToolChoice::kRequired;
  EXPECT_FALSE(OpensCalls(conversation));
  EXPECT_TRUE(TextOf(conversation).ends_with("<｜Assistant｜><think>"));
  conversation.thinking = false;
  EXPECT_TRUE(OpensCalls(conversation));
  EXPECT_TRUE(TextOf(conversation).ends_with("<｜Assistant｜></think>\n\n<｜DSML｜ calls>\n"));
}

// Every place where a client's text may stand, each with the same text.
Conversation Everywhere(const std::string& text) {
  Conversation conversation;
  Message caller = Assistant(text);
  caller.reasoning = text;
  caller.calls = {{.id = "x", .name = text, .arguments = text},
                  {.id = "y", .name = "f", .arguments = R"({"k":")" + text + "\"}"}};
  Message late = System(text);
  late.tools = {Noop()};
  conversation.messages = {System(text),
                           User(text),
                           caller,
                           Result("x", text),
                           Result("y", text),
                           late,
                           {.role = Role::kLatestReminder, .text = text},
                           User(text)};
  conversation.tools = {{.name = "f", .description = text, .parameters = {}}};
  return conversation;
}

TEST(Render, C15C16NothingThatAClientWritesIsAControlToken) {
  // llama.cpp#24382: "becomes the control id". The model's own grounding tokens are the exception,
  // in an assistant's text only.
  const std::vector<TokenId> clean = IdsOf(Everywhere("x"));
  const auto n_controls = [](const std::vector<TokenId>& ids) {
    return std::ranges::count_if(ids, [](TokenId id) { return id.value >= 256; });
  };
  for (size_t i = 0; i < kFirstGrounding; ++i) {
    const std::string spelling(SpellingOf(static_cast<Control>(i)));
    const Conversation conversation = Everywhere("A" + spelling + "B");
    const std::vector<TokenId> ids = IdsOf(conversation);
    EXPECT_EQ(n_controls(ids), n_controls(clean)) << spelling;
    std::string text;
    for (TokenId id : ids) text += SampleFormat().text(id);
    EXPECT_EQ(text, TextOf(conversation));
  }
  const std::vector<TokenId> grounded = IdsOf(Everywhere("A<｜box｜>B"));
  EXPECT_EQ(n_controls(grounded), n_controls(clean) + 2);  // its text and its reasoning
  EXPECT_EQ(TextOf(Everywhere("see <image>")).find("<｜deepseek_image｜>"), std::string::npos);
}

class RandomTexts : public Random {
 public:
  std::string Text(size_t n_pieces_max) {
    const std::vector<std::string> pieces = {"a",          "b c", "\n", "{\"k\": 1}", "<",
                                             "</think>",   "é",   "\\", "\"",         "｜DSML｜",
                                             "<｜User｜>", "\t",  "三"};
    std::string text;
    for (size_t n = Below(n_pieces_max + 1); n > 0; --n) text += pieces[Below(pieces.size())];
    return text;
  }
};

TEST(Render, ATurnThatWasRenderedIsReadBackAsItWas) {
  RandomTexts random;
  for (int round = 0; round < 2000; ++round) {
    Message turn = Assistant("x" + random.Text(5) + "y");  // line feeds at its ends are not kept
    turn.reasoning = "x" + random.Text(5) + "y";
    for (size_t n = random.Below(3); n > 0; --n) {
      std::string value = "\"";
      AppendJsonEscaped(value, random.Text(5));
      turn.calls.push_back(
          {.id = {},
           .name = "f",
           .arguments = "{\"a b\": " + value + "\", \"n\": [1, 2.5, null], \"e\": {}}"});
    }
    Conversation conversation;
    conversation.tools = {Noop()};
    conversation.messages = {User("q")};
    const std::vector<TokenId> asked = IdsOf(conversation);
    conversation.messages.push_back(turn);
    conversation.messages.push_back(User("next"));
    const std::vector<TokenId> continued = IdsOf(conversation);
    // What follows the prompt is what the model wrote, up to its end of sentence.
    ASSERT_TRUE(std::ranges::equal(asked, std::span(continued).first(asked.size())));
    const std::vector<TokenId> written(continued.begin() + std::ssize(asked), continued.end());
    AnswerSpec spec;
    spec.parses_calls = true;
    const Lexed lexed = Lex(SampleFormat(), spec, written, {.sizes = {1 + random.Below(5)}});
    EXPECT_EQ(lexed.reasoning, *turn.reasoning);
    EXPECT_EQ(lexed.content, turn.text);
    ASSERT_EQ(lexed.calls.size(), turn.calls.size());
    for (size_t i = 0; i < lexed.calls.size(); ++i) {
      EXPECT_EQ(lexed.calls[i].name, "f");
      EXPECT_EQ(lexed.calls[i].arguments, turn.calls[i].arguments);
    }
  }
}

// What a client adds behind an answer: results of its calls, a message, or both.
void AddNext(const Message& answer, RandomTexts& random, Conversation& conversation) {
  const std::vector<ToolCall> calls = answer.calls;
  conversation.messages.push_back(answer);
  for (const ToolCall& call : calls) {
    conversation.messages.push_back(Result(call.id, random.Text(4)));
  }
  if (random.Below(4) == 0) conversation.messages.push_back(System(random.Text(4)));
  if (calls.empty() || random.Below(2) == 0) conversation.messages.push_back(User(random.Text(4)));
}

Message RandomAnswer(RandomTexts& random, bool with_tools) {
  Message answer = Assistant(random.Text(4));
  if (!with_tools) return answer;
  answer.reasoning = random.Text(4);
  for (size_t n = random.Below(3); n > 0; --n) {
    answer.calls.push_back({.id = "call" + std::to_string(n), .name = "f", .arguments = "{}"});
  }
  return answer;
}

TEST(Render, APromptBeginsWithThePromptOfItsHistory) {
  RandomTexts random;
  for (int round = 0; round < 1000; ++round) {
    Conversation conversation;
    conversation.thinking = random.Below(2) == 0;
    const bool with_tools = random.Below(2) == 0;
    if (with_tools) conversation.tools = {Noop()};
    if (random.Below(2) == 0) conversation.messages.push_back(System(random.Text(4)));
    conversation.messages.push_back(User(random.Text(4)));
    for (int turn = 0; turn < 4; ++turn) {
      const std::vector<TokenId> before = IdsOf(conversation);
      AddNext(RandomAnswer(random, with_tools), random, conversation);
      const std::vector<TokenId> after = IdsOf(conversation);
      // Without tools the reasoning is dropped, and with it the mark that began it.
      const size_t n = before.size() - (!with_tools && conversation.thinking ? 1 : 0);
      ASSERT_GE(after.size(), n);
      ASSERT_TRUE(std::ranges::equal(std::span(before).first(n), std::span(after).first(n)));
    }
  }
}

// With the merges of a real vocabulary, in which pieces of a spelling are tokens.
TEST(Render, NoTextYieldsAControlToken) {
  RandomTexts random;
  for (int round = 0; round < 400; ++round) {
    std::string text = random.Text(6);
    const auto control = static_cast<Control>(random.Below(kFirstGrounding));
    std::string spelling(SpellingOf(control));
    if (random.Below(3) == 0) spelling.resize(random.Below(spelling.size()));
    text.insert(random.Below(text.size() + 1), spelling);
    std::string valid;
    AppendValidUtf8(valid, text);
    const Prompt prompt = Render(Everywhere(valid), Profile());
    const std::vector<TokenId> ids = Encode(prompt, CutFormat()).ids;
    const auto n_controls = std::ranges::count_if(
        ids, [](TokenId id) { return CutFormat().vocabulary().is_added(id); });
    ASSERT_EQ(n_controls, std::ssize(prompt.marks)) << valid;
    ASSERT_EQ(prompt.marks.size(), Render(Everywhere("x"), Profile()).marks.size()) << valid;
    std::string read_back;
    for (const TokenId id : ids) read_back += CutFormat().text(id);
    ASSERT_EQ(read_back, prompt.text);
  }
}

}  // namespace
}  // namespace sluice::codec::deepseek_v41
