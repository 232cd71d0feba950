#include "codec/format/deepseek_v41/output_lexer.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <random>

#include "base/json.h"
#include "codec/format/deepseek_v41/tool_text.h"
#include "codec/format/lexer_run_test_impl.h"
#include "codec/sample_format_test_impl.h"

namespace sluice::codec::deepseek_v41 {
namespace {

std::vector<TokenId> TokensOf(std::string_view text) {
  return codec::TokensOf(SampleFormat(), text);
}

Lexed Lex(const AnswerSpec& spec, std::span<const TokenId> tokens, const Cut& cut = {}) {
  return codec::Lex(SampleFormat(), spec, tokens, cut);
}

Lexed Lex(const AnswerSpec& spec, std::string_view text) { return Lex(spec, TokensOf(text)); }

AnswerSpec Thinking() {
  AnswerSpec spec;
  spec.parses_calls = true;
  return spec;
}

AnswerSpec Plain() {
  AnswerSpec spec = Thinking();
  spec.thinking = false;
  spec.start = OutputStart::kContent;
  return spec;
}

AnswerSpec WithStops(AnswerSpec spec, std::vector<std::string> stops) {
  spec.stops = std::move(stops);
  return spec;
}

std::string Call(const std::string& inside) {
  return "<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"f\">\n" + inside +
         "\n</｜DSML｜ invoke>\n</｜DSML｜ calls>";
}

std::string Parameter(const std::string& key, const std::string& type, const std::string& value) {
  return "<｜DSML｜ parameter name=\"" + key + "\" string=\"" + type + "\">" + value +
         "</｜DSML｜ parameter>";
}

std::string ArgumentsOf(const std::string& inside) {
  const Lexed lexed = Lex(Plain(), Call(inside));
  EXPECT_EQ(lexed.calls.size(), 1u);
  EXPECT_TRUE(lexed.calls.empty() || lexed.calls[0].is_complete);
  return lexed.calls.empty() ? "" : lexed.calls[0].arguments;
}

TEST(OutputLexer, CutsReasoningFromContentAtTheMark) {
  const Lexed lexed = Lex(Thinking(), "\n\nplan\n\n</think>\n\nanswer\n");
  EXPECT_EQ(lexed.reasoning, "plan");
  EXPECT_EQ(lexed.content, "answer\n");
  EXPECT_EQ(lexed.n_reasoning, 4);
  EXPECT_EQ(lexed.n_tokens, 18);
}

TEST(OutputLexer, AContinuedTextKeepsItsLeadingLineFeeds) {
  AnswerSpec spec = Thinking();
  spec.start = OutputStart::kReasoningContinued;
  const Lexed lexed = Lex(spec, "\nb</think>\nc");
  EXPECT_EQ(lexed.reasoning, "\nb");
  EXPECT_EQ(lexed.content, "c");
  spec.start = OutputStart::kContentContinued;
  EXPECT_EQ(Lex(spec, "\nb").content, "\nb");
}

TEST(OutputLexer, AStrayMarkInContentIsDroppedAndLineFeedsBehindItAreText) {
  EXPECT_EQ(Lex(Plain(), "</think>\n\nb").content, "\n\nb");
  EXPECT_EQ(Lex(Plain(), "a</think>\nb").content, "a\nb");
}

TEST(OutputLexer, C29AnEmojiOverTokensComesWholeAndABrokenByteIsOneReplacement) {
  // ferrox#124: "U+FFFD twice, stream and buffered".
  EXPECT_EQ(Lex(Plain(), "\xF0\x9F\x9A\xA2").content, "\xF0\x9F\x9A\xA2");
  EXPECT_EQ(Lex(Plain(), "a\x80z").content, "a\xEF\xBF\xBDz");
  EXPECT_EQ(Lex(Plain(), "a\xE2\x82z").content, "a\xEF\xBF\xBDz");
  EXPECT_EQ(Lex(Plain(), "三\xE4\xB8").content, "三");
  EXPECT_EQ(Lex(Thinking(), "t\xF0\x9F</think>x").reasoning, "t\xEF\xBF\xBD");
}

TEST(OutputLexer, C30EachPrefixOfALongKoreanTextIsTheTextSoFar) {
  // dynamo#12630: "5-13 syllables lost per reply".
  std::string text;
  for (int i = 0; i < 200; ++i) text += i % 7 == 0 ? " " : i % 3 == 0 ? "한" : "국어";
  const std::vector<TokenId> tokens = TokensOf(text);
  for (size_t n = 0; n <= tokens.size(); ++n) {
    std::string expected = text.substr(0, n);
    expected.resize(expected.size() - static_cast<size_t>(IncompleteTail(expected)));
    EXPECT_EQ(Lex(Plain(), std::span(tokens).first(n), {.sizes = {3}}).content, expected);
  }
}

TEST(OutputLexer, C31AStopStringCutsContentAndNotReasoningOrAMark) {
  // vllm#14170: "cut in reasoning, </think> shown in content".
  const Lexed lexed = Lex(WithStops(Thinking(), {"9.8"}), "9.8 or 9.11</think>It is 9.8 indeed");
  EXPECT_EQ(lexed.reasoning, "9.8 or 9.11");
  EXPECT_EQ(lexed.content, "It is ");
  EXPECT_EQ(lexed.ended, OutputEnd::kStopString);
  // Characters that wait, for a tag or for their last byte, too.
  const Lexed waited = Lex(WithStops(Thinking(), {"\n", "é"}), "a\nbéc</think>de\u0301\nf");
  EXPECT_EQ(waited.reasoning, "a\nbéc");
  EXPECT_EQ(waited.content, "de\u0301");
  EXPECT_EQ(Lex(WithStops(Plain(), {"</think>"}), "a</think>b").content, "ab");
}

TEST(OutputLexer, TheEarliestStopStringWinsAndOfTwoThatEndTogetherTheLongest) {
  EXPECT_EQ(Lex(WithStops(Plain(), {"<end> yy", "<end>"}), "xx <end> yy").content, "xx ");
  EXPECT_EQ(Lex(WithStops(Plain(), {"abcd", "bc"}), "abcd").content, "a");
  EXPECT_EQ(Lex(WithStops(Plain(), {"bc", "abc"}), "zabc").content, "z");
  EXPECT_EQ(Lex(WithStops(Plain(), {"STOP"}), "one STOP two").n_tokens, 8);
}

TEST(OutputLexer, AStopStringOfLineFeedsLeavesTheCallBehindThem) {
  // spec recipe.md §13.9: "a stop sequence \n\n swallows the call that follows the text".
  const Lexed lexed = Lex(WithStops(Plain(), {"\n\n"}), "text\n\n" + Call(""));
  EXPECT_EQ(lexed.content, "text");
  ASSERT_EQ(lexed.calls.size(), 1u);
  EXPECT_EQ(Lex(WithStops(Plain(), {"\n\n"}), "text\n\nmore").content, "text");
}

TEST(OutputLexer, C04MarkupEndsReasoningAndABareMarkIsText) {
  // smg#2525: "V4 parser treats it as text, or the reasoning filter leaks half a marker".
  const Lexed lexed = Lex(Thinking(), "plan\n\n" + Call(Parameter("a", "false", "1")) + "after");
  EXPECT_EQ(lexed.reasoning, "plan");
  EXPECT_EQ(lexed.content, "");
  ASSERT_EQ(lexed.calls.size(), 1u);
  EXPECT_EQ(lexed.calls[0].arguments, "{\"a\": 1}");
  EXPECT_EQ(lexed.ended, OutputEnd::kCallsClosed);
  EXPECT_EQ(Lex(Plain(), "the <｜DSML｜ token").content, "the <｜DSML｜ token");
  EXPECT_EQ(Lex(Thinking(), "a<think>b</think>c</think>d").reasoning, "ab");
  EXPECT_EQ(Lex(Thinking(), "a<think>b</think>c</think>d").content, "cd");
}

TEST(OutputLexer, C02AnArgumentEndsAtItsCloser) {
  // vllm#53227: "closing markup appended to the argument string".
  EXPECT_EQ(ArgumentsOf(Parameter("a", "true", "x")), "{\"a\": \"x\"}");
  EXPECT_EQ(ArgumentsOf(Parameter("a", "true", "2>&1 <") + Parameter("b", "true", "c </ d")),
            "{\"a\": \"2>&1 <\", \"b\": \"c </ d\"}");
}

TEST(OutputLexer, C02ArgumentsAreJsonAfterEachParameter) {
  const AnswerSpec spec = Plain();
  const StopSet stops({});
  codec::OutputLexer lexer({.format = SampleFormat(), .spec = spec, .stops = stops});
  Lexed lexed;
  Collect(lexer.Push(TokensOf("<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"f\">\n"), {}), lexed);
  std::string expected;
  for (const char* key : {"a", "b", "c"}) {
    Collect(lexer.Push(TokensOf(Parameter(key, "true", "x</")), {}), lexed);
    expected += (expected.empty() ? "{\"" : ", \"") + std::string(key) + "\": \"x</\"";
    EXPECT_EQ(lexed.calls.back().arguments, expected);
    EXPECT_TRUE(Json::Parse(lexed.calls.back().arguments + "}"));
  }
}

TEST(OutputLexer, C05ArgumentsKeepTheirTypes) {
  // xinference#5372: "all become strings".
  EXPECT_EQ(ArgumentsOf(Parameter("a", "false", "3") + Parameter("b", "false", "true") +
                        Parameter("c", "false", "null") + Parameter("d", "false", "[1,2]") +
                        Parameter("e", "false", "{\"a\":1}") + Parameter("f", "true", "3") +
                        Parameter("g", "false", "{\"a\":")),
            "{\"a\": 3, \"b\": true, \"c\": null, \"d\": [1,2], \"e\": {\"a\":1}, \"f\": \"3\", "
            "\"g\": \"{\\\"a\\\":\"}");
}

TEST(OutputLexer, HalfASurrogatePairInArgumentsIsTheReplacementCharacter) {
  const std::string value = R"("\ud800x\ud83d\ude00\udc00")";
  const std::string shown = R"("\ufffdx\ud83d\ude00\ufffd")";
  EXPECT_EQ(ArgumentsOf(Parameter("a", "false", value)), "{\"a\": " + shown + "}");
  EXPECT_EQ(ArgumentsOf("{\"a\": " + value + "}"), "{\"a\": " + shown + "}");
}

TEST(OutputLexer, C06ACallThatALimitCutsIsNotComplete) {
  // vLLM-2080Ti#125: "partial call reported as complete".
  const std::string cut =
      "<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"f\">\n" + Parameter("a", "false", "1") + "\n";
  const Lexed at_limit = Lex(Plain(), TokensOf(cut), {.at_limit = true});
  ASSERT_EQ(at_limit.calls.size(), 1u);
  EXPECT_FALSE(at_limit.calls[0].is_complete);
  EXPECT_EQ(at_limit.calls[0].arguments, "{\"a\": 1");
  // By itself: all values are there, so the object is closed.
  const Lexed by_itself = Lex(Plain(), TokensOf(cut));
  EXPECT_TRUE(by_itself.calls[0].is_complete);
  EXPECT_EQ(by_itself.calls[0].arguments, "{\"a\": 1}");
  EXPECT_FALSE(by_itself.is_cut);
  const Lexed in_value = Lex(Plain(), TokensOf(cut + "<｜DSML｜ parameter name=\"b\" string=\"tr"));
  EXPECT_TRUE(in_value.is_cut);
  EXPECT_FALSE(in_value.calls[0].is_complete);
}

TEST(OutputLexer, TwoCallsOfWhichTheFirstWasLeftOpenAreTwoCalls) {
  const Lexed lexed = Lex(
      Plain(), "<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"f\">\n" + Parameter("a", "true", "x") +
                   "\n<｜DSML｜ invoke name='g'>{\"b\": [1]}</｜DSML｜ invoke></｜DSML｜ calls>");
  ASSERT_EQ(lexed.calls.size(), 2u);
  EXPECT_EQ(lexed.calls[0].arguments, "{\"a\": \"x\"}");
  EXPECT_EQ(lexed.calls[1].name, "g");
  EXPECT_EQ(lexed.calls[1].arguments, "{\"b\": [1]}");
  EXPECT_TRUE(lexed.calls[0].is_complete && lexed.calls[1].is_complete);
}

TEST(OutputLexer, ATagWithoutANameIsNone) {
  const std::string spaces = "<｜DSML｜" + std::string(100, ' ');
  EXPECT_EQ(ArgumentsOf(spaces + "invoke name=\"g\">" + Parameter("a", "false", "1")),
            "{\"a\": 1}");
}

TEST(OutputLexer, AValueWithoutATypeIsWhatTheSchemaSays) {
  AnswerSpec spec = Plain();
  spec.tools.push_back(
      {.name = "f", .description = {}, .parameters = R"({"properties":{"id":{"type":"string"}}})"});
  const std::string inside =
      "<｜DSML｜ parameter name=\"id\">42</｜DSML｜ parameter><｜DSML｜ parameter name=\"n\">42</｜DSML｜ "
      "parameter>";
  EXPECT_EQ(Lex(spec, Call(inside)).calls[0].arguments, "{\"id\": \"42\", \"n\": 42}");
}

TEST(OutputLexer, MarkupThatNobodyOfferedToolsForIsNotShown) {
  AnswerSpec spec = Plain();
  spec.parses_calls = false;
  const Lexed lexed = Lex(spec, "x\n\n" + Call(Parameter("a", "true", "v")));
  EXPECT_EQ(lexed.content, "x");
  EXPECT_TRUE(lexed.calls.empty());
  EXPECT_FALSE(lexed.is_cut);
}

TEST(OutputLexer, ALongValueOfUnknownTypeIsBoundedAndComesWhole) {
  const std::string value = "[" + std::string(100'000, '1') + "]";
  EXPECT_EQ(ArgumentsOf(Parameter("a", "false", value)), "{\"a\": " + value + "}");
  const std::string text(200'000, 'x');
  EXPECT_EQ(ArgumentsOf(Parameter("a", "true", text)), "{\"a\": \"" + text + "\"}");
}

TEST(OutputLexer, HasOneEntryPerTokenOfVisibleText) {
  AnswerSpec spec = WithStops(Thinking(), {"STOP"});
  spec.logprobs = true;
  const Lexed lexed = Lex(spec, "\nr\n</think>\nab\xE2\x82xSTOP");
  EXPECT_EQ(lexed.reasoning, "r");
  EXPECT_EQ(lexed.content, "ab\xEF\xBF\xBDx");
  EXPECT_EQ(lexed.tokens, "rab\xE2\x82x");
  EXPECT_EQ(lexed.n_entries, 6);
}

TEST(OutputLexer, ATokenWithoutALogprobOfTheServiceHasNoEntry) {
  AnswerSpec spec = Plain();
  spec.logprobs = true;
  const StopSet none({});
  codec::OutputLexer lexer({.format = SampleFormat(), .spec = spec, .stops = none});
  const std::vector<TokenId> tokens = TokensOf("ab");
  const std::vector<wire::TokenLogprob> told(1, {.logprob = -0.5f, .alternatives = {}});
  auto events = lexer.Push(std::span(tokens).first(1), {});
  ASSERT_EQ(events.size(), 1u);
  EXPECT_TRUE(events[0].logprobs.empty());
  events = lexer.Push(tokens, told);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].text, "ab");
  ASSERT_EQ(events[0].logprobs.size(), 1u);
  EXPECT_EQ(events[0].logprobs[0].text, "a");
}

TEST(OutputLexer, IdsOutsideTheVocabularyAreNoText) {
  const std::vector<TokenId> tokens = {TokenId('a'), TokenId(100'000), TokenId(-1)};
  EXPECT_EQ(Lex(Plain(), tokens).content, "a");
}

// Every way to cut texts in which all the states of a reader occur.
TEST(OutputLexer, C01EveryChunkSizeGivesTheSameOutput) {
  AnswerSpec json = Plain();
  json.is_json = true;
  AnswerSpec forced = Plain();
  forced.starts_in_calls = true;
  struct Output {
    AnswerSpec spec;
    std::string text;
  };
  const Output outputs[] = {
      {WithStops(Thinking(), {"STOP", "\n\n\n"}),
       "\nplan\n\n</think>\n\n三\xF0\x9F\x9A\xA2 one <｜DSML｜ two\n\n" +
           Call(Parameter("a", "true", "2>&1 </ x") + "\n" + Parameter("b", "false", "[1, 2]")) +
           "x"},
      {WithStops(Plain(), {"STOP"}), "a ST STO\n<｜DSML｜ STOP b"},
      {json, "Sure:\n```json\n{\"a\": \"```\"}\n```\nHope it helps"},
      {json, "See [1]: {\"a\": 1}"},
      {json, "The list is [1, {\"b\": \"]\"}]  \n" + Call("")},
      {forced, "I refuse."},
      {forced, "Well\n\n" + Call("")}};
  for (const Output& output : outputs) {
    const std::vector<TokenId> tokens = TokensOf(output.text);
    for (const bool at_limit : {false, true}) {
      const Lexed whole =
          Lex(output.spec, tokens, {.sizes = {tokens.size()}, .at_limit = at_limit});
      for (size_t size = 1; size < tokens.size(); ++size) {
        EXPECT_EQ(Lex(output.spec, tokens, {.sizes = {size}, .at_limit = at_limit}), whole)
            << output.text << size;
      }
    }
  }
}

TEST(OutputLexer, TextWhereACallWasRequiredIsContentUnlessALimitCutsIt) {
  // Goldens chat/calls/required-but-text and responses/object/echo-generate-summary.
  AnswerSpec spec = Plain();
  spec.starts_in_calls = true;
  const std::vector<TokenId> refusal = TokensOf("I refuse.");
  EXPECT_EQ(Lex(spec, refusal).content, "I refuse.");
  EXPECT_EQ(Lex(spec, refusal, {.at_limit = true}).content, "");
  const Lexed with_call = Lex(spec, TokensOf("Well.\n" + Call("")), {.at_limit = true});
  EXPECT_EQ(with_call.content, "Well.");
  EXPECT_EQ(with_call.calls.size(), 1u);
  EXPECT_EQ(Lex(WithStops(spec, {"fuse"}), refusal, {.at_limit = true}).content, "I re");
  const std::string essay(10'000, 'x');  // no call any more: it is shown as it comes
  EXPECT_EQ(Lex(spec, TokensOf(essay), {.at_limit = true}).content, essay);
}

TEST(OutputLexer, ABracketInASentenceIsTheJsonOnlyIfItEndsItsLine) {
  AnswerSpec spec = Plain();
  spec.is_json = true;
  EXPECT_EQ(Lex(spec, "The list: [1, 2]").content, "[1, 2]");
  EXPECT_EQ(Lex(spec, "The list: [\"a]\", 2] \nas asked").content, "[\"a]\", 2]");
  EXPECT_EQ(Lex(spec, "The list:\n[1, 2] and more").content, "[1, 2]");
  EXPECT_EQ(Lex(spec, "Sure {\"a\": 1} and more").content, "{\"a\": 1}");
  // Golden chat/json/bracket-in-prose: nobody can tell, so as the reference: a space for each token
  // in front, then all there is.
  EXPECT_EQ(Lex(spec, "See [1]: {\"a\": 1}").content, "    [1]: {\"a\": 1}");
}

TEST(OutputLexer, ABrokenValueIsPassedOnWhereTheApiWantsIt) {
  // Golden messages/tool-invalid-json.
  AnswerSpec spec = Plain();
  spec.keeps_broken_values = true;
  const std::string inside = Parameter("a", "false", "nope") + Parameter("b", "false", "1");
  EXPECT_EQ(Lex(spec, Call(inside)).calls[0].arguments, "{\"a\": nope, \"b\": 1}");
  EXPECT_EQ(ArgumentsOf(inside), "{\"a\": \"nope\", \"b\": 1}");
}

const std::vector<std::string> kPieces = {"a",
                                          "ab",
                                          "\n",
                                          "\n\n",
                                          "<",
                                          "</",
                                          "</think>",
                                          "<think>",
                                          "｜DSML｜",
                                          "<｜DSML｜",
                                          "</｜DSML｜",
                                          " calls>",
                                          " invoke",
                                          " parameter",
                                          " name=\"",
                                          "k",
                                          "\"",
                                          "\" string=\"",
                                          "true",
                                          "false",
                                          "\">",
                                          ">",
                                          "'",
                                          " ",
                                          "{\"a\": 1}",
                                          "[",
                                          "}",
                                          "```json\n",
                                          "```",
                                          "\n```",
                                          "STOP",
                                          "ST",
                                          "\xF0\x9F\x9A\xA2",
                                          "\xF0\x9F",
                                          "\x80",
                                          "\xE4\xB8\x89",
                                          "\xEF\xBF\xBD",
                                          "<｜User｜>",
                                          "<｜box｜>",
                                          " calls>\n<｜DSML｜ invoke name=\"f\">\n",
                                          "<｜DSML｜ parameter name=\"k\" string=\"true\">",
                                          "</｜DSML｜ parameter>",
                                          "</｜DSML｜ invoke>",
                                          "<｜end▁of▁sentence｜>"};

std::string TextOf(const std::vector<LexedCall>& lexed) {
  std::vector<ToolCall> calls;
  for (const LexedCall& call : lexed) {
    calls.push_back({.id = {}, .name = call.name, .arguments = call.arguments});
  }
  Prompt prompt;
  if (!calls.empty()) AddCalls(calls, prompt);
  return prompt.text;
}

TEST(OutputLexer, KnowsWhatTheFormatWouldHaveWritten) {
  const std::string call = "\n\n" + Call(Parameter("a", "true", "x"));
  const std::string two =
      Parameter("a", "true", "</p> \"\n") + "\n" + Parameter("b c\"", "false", "[1,2]");
  for (const std::string& text :
       {std::string("t</think>"), "t\n</think>\n\nhi\n" + std::string("<b>"), "</think>hi" + call,
        "</think>" + call, "</think>\n\n" + Call(two), "</think>\n\n" + Call(""),
        "</think>\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"f\">\n\n</｜DSML｜ invoke>\n"
        "<｜DSML｜ invoke name=\"g\">\n" +
            two + "\n</｜DSML｜ invoke>\n</｜DSML｜ calls>more",
        std::string("</think>[<｜box｜>]<｜end▁of▁sentence｜><｜User｜>")}) {
    EXPECT_TRUE(Lex(Thinking(), text).is_well_formed) << text;
  }
  EXPECT_TRUE(Lex(Plain(), "hi" + call).is_well_formed);
}

TEST(OutputLexer, KnowsWhatItHadToRepair) {
  const std::string good = "</think>\n\n" + Call(Parameter("a", "false", "1"));
  ASSERT_TRUE(Lex(Thinking(), good).is_well_formed);
  // Each place in turn, with a character less and with one more: well formed is what the renderer
  // writes of the same calls, but for spaces inside a value.
  for (size_t at = good.find("calls"); at < good.size(); ++at) {
    const std::string less = good.substr(0, at) + good.substr(at + 1);
    const std::string more = good.substr(0, at) + " " + good.substr(at);
    for (const std::string& text : {less, more}) {
      const Lexed lexed = Lex(Thinking(), text);
      const bool is_spaced = text.find("> 1<") != text.npos || text.find(">1 <") != text.npos;
      EXPECT_EQ(lexed.is_well_formed, is_spaced || TextOf(lexed.calls) == text.substr(8)) << text;
    }
  }
  for (const char* text :
       {"thought that does not end", "a</think>b</think>c", "a</think><｜User｜>b",
        "a<think>b</think>", "a</think>b｜DSML｜c", "a</think>b<｜DSML｜ nothing",
        "a</think>b<｜DSML｜ ca", "a</think>\n\n<｜DSML｜ calls>\n\n</｜DSML｜ calls>"}) {
    EXPECT_FALSE(Lex(Thinking(), text).is_well_formed) << text;
  }
  EXPECT_FALSE(Lex(Thinking(), "a\n\n" + good.substr(8)).is_well_formed) << "out of reasoning";
  EXPECT_FALSE(Lex(Plain(), good).is_well_formed) << "a second end of thinking";
  AnswerSpec spec = Thinking();
  spec.parses_calls = false;
  EXPECT_FALSE(Lex(spec, good).is_well_formed) << "not offered, so not shown";
  spec = Plain();
  spec.starts_in_calls = true;
  const std::string behind_opening = good.substr(good.find("<｜DSML｜ invoke"));
  EXPECT_TRUE(Lex(spec, behind_opening).is_well_formed);
  EXPECT_FALSE(Lex(spec, "so: " + behind_opening).is_well_formed);
  EXPECT_FALSE(Lex(spec, "no").is_well_formed);
  EXPECT_FALSE(Lex(spec, good.substr(8)).is_well_formed) << "opened twice";
  EXPECT_FALSE(Lex(Plain(), behind_opening).is_well_formed) << "not opened";
  std::vector<TokenId> tokens = TokensOf("a");
  EXPECT_TRUE(Lex(Plain(), tokens).is_well_formed);
  tokens.push_back(TokenId(SampleFormat().n_tokens()));
  EXPECT_FALSE(Lex(Plain(), tokens).is_well_formed) << "no token";
}

// Texts of the pieces that matter, in random order: any cut gives the same output.
TEST(OutputLexer, C01OutputDoesNotDependOnHowItIsCut) {
  // vllm#40801: "marker fragments shown to the user".
  const std::vector<std::vector<std::string>> stop_lists = {
      {},         {"STOP"},        {"\n\n"}, {"\n"}, {"ab", "abc"}, {"\xE4\xB8\x89"},
      {"<", "k"}, {"aab", "STOPS"}};
  const int seed = testing::UnitTest::GetInstance()->random_seed();
  std::printf("seed %d (--gtest_random_seed)\n", seed);
  std::mt19937_64 random(static_cast<uint64_t>(seed));
  auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  for (int round = 0; round < 8000; ++round) {
    std::string text;
    for (size_t n = below(24); n > 0; --n) text += kPieces[below(kPieces.size())];
    AnswerSpec spec;
    spec.stops = stop_lists[below(stop_lists.size())];
    spec.start = static_cast<OutputStart>(below(4));
    spec.logprobs = below(2) == 1;
    spec.parses_calls = below(4) != 0;
    spec.starts_in_calls = spec.parses_calls && below(4) == 0;
    spec.is_json = below(4) == 0;
    if (below(3) == 0) spec.profile = Profile::Reference();
    const bool at_limit = below(2) == 1;
    const std::vector<TokenId> tokens = TokensOf(text);
    const Lexed by_token = Lex(spec, tokens, {.at_limit = at_limit});
    EXPECT_EQ(Lex(spec, tokens, {.sizes = {tokens.size() + 1}, .at_limit = at_limit}), by_token)
        << text;
    std::vector<size_t> sizes;
    for (int i = 0; i < 5; ++i) sizes.push_back(1 + below(6));
    EXPECT_EQ(Lex(spec, tokens, {.sizes = sizes, .at_limit = at_limit}), by_token) << text;
    if (!spec.profile.repair_calls) continue;
    for (const LexedCall& call : by_token.calls) {
      if (!call.is_complete) continue;
      EXPECT_TRUE(Json::Parse(call.arguments)) << text << "\n" << call.arguments;
    }
  }
}

}  // namespace
}  // namespace sluice::codec::deepseek_v41
