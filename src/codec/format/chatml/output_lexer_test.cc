#include "codec/format/chatml/output_lexer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/json.h"
#include "codec/format/chatml/sample_format_test_impl.h"
#include "codec/format/lexer_run_test_impl.h"

namespace sluice::codec::chatml {
namespace {

constexpr Family kFamilies[] = {Family::kSmollm2, Family::kQwen25};

AnswerSpec WithTools() {
  AnswerSpec spec;
  spec.start = OutputStart::kContent;
  spec.thinking = false;
  spec.logprobs = true;
  spec.parses_calls = true;
  return spec;
}

AnswerSpec Plain() {
  AnswerSpec spec = WithTools();
  spec.parses_calls = false;
  return spec;
}

AnswerSpec Opened(std::string opening) {
  AnswerSpec spec = WithTools();
  spec.starts_in_calls = true;
  spec.calls_opening = std::move(opening);
  return spec;
}

// The same for every cut, and where it must be the same for both families.
Lexed LexOf(Family family, const AnswerSpec& spec, std::string_view text, bool at_limit = false) {
  const Format& format = SampleFormat(family);
  const std::vector<TokenId> tokens = TokensOf(format, text);
  const Lexed by_token = Lex(format, spec, tokens, {.at_limit = at_limit});
  for (const std::vector<size_t>& sizes :
       {std::vector<size_t>{tokens.size() + 1}, {2}, {3, 1, 7}, {5, 11}}) {
    EXPECT_EQ(Lex(format, spec, tokens, {.sizes = sizes, .at_limit = at_limit}), by_token) << text;
  }
  return by_token;
}

std::vector<LexedCall> One(std::string name, std::string arguments, bool is_complete = true) {
  return {{.name = std::move(name), .arguments = std::move(arguments), .is_complete = is_complete}};
}

TEST(ChatmlLexer, ContentEndsAtEitherEndToken) {
  for (const Family family : kFamilies) {
    for (const std::string_view end : {"<|im_end|>", "<|endoftext|>"}) {
      const Lexed lexed = LexOf(family, Plain(), "hi\n<x>" + std::string(end) + "more");
      EXPECT_EQ(lexed.content, "hi\n<x>");
      EXPECT_EQ(lexed.tokens, lexed.content);
      EXPECT_EQ(lexed.n_tokens, 6);
      EXPECT_EQ(lexed.ended, OutputEnd::kEndOfSentence);
      EXPECT_TRUE(lexed.is_well_formed);
    }
  }
}

TEST(ChatmlLexer, CallsOfBothFormsAreRead) {
  constexpr std::string_view kTagged =
      "Sure.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": [1, 2.5e3, true, null], "
      "\"b\": \"}<\\u00e9\\n\"}}\n</tool_call>\n<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n"
      "</tool_call><|im_end|>";
  constexpr std::string_view kListed =
      "Sure.\n<tool_call>[{\"name\": \"f\", \"arguments\": {\"a\": [1, 2.5e3, true, null], "
      "\"b\": \"}<\\u00e9\\n\"}}, {\"name\": \"g\", \"arguments\": {}}]</tool_call><|im_end|>";
  for (const Family family : kFamilies) {
    for (const std::string_view text : {kTagged, kListed}) {
      const Lexed lexed = LexOf(family, WithTools(), text);
      EXPECT_EQ(lexed.content, "Sure.");
      EXPECT_EQ(lexed.tokens, "Sure.");
      ASSERT_EQ(lexed.calls.size(), 2u);
      EXPECT_EQ(lexed.calls[0].name, "f");
      EXPECT_EQ(lexed.calls[0].arguments,
                "{\"a\": [1, 2.5e3, true, null], \"b\": \"}<\\u00e9\\n\"}");
      EXPECT_TRUE(lexed.calls[0].is_complete);
      EXPECT_EQ(lexed.calls[1], One("g", "{}")[0]);
      EXPECT_TRUE(lexed.is_well_formed);
      EXPECT_EQ(lexed.ended, OutputEnd::kEndOfSentence);
    }
  }
}

TEST(ChatmlLexer, ArgumentsComeWhileTheyAreWritten) {
  const Format& format = SampleFormat(Family::kQwen25);
  const AnswerSpec spec = WithTools();
  const StopSet stops({});
  codec::OutputLexer lexer({.format = format, .spec = spec, .stops = stops});
  Lexed lexed;
  const auto push = [&](std::string_view text) {
    Collect(lexer.Push(TokensOf(format, text), {}), lexed);
  };
  push("<tool_call>\n{\"name\": \"f\", \"arguments\":");
  EXPECT_TRUE(lexed.calls.empty());
  push(" {");
  EXPECT_EQ(lexed.calls, One("f", "{", false));
  push("\"a\": \"x");
  EXPECT_EQ(lexed.calls, One("f", "{\"a\": \"x", false));
  push("y\"}");
  EXPECT_EQ(lexed.calls, One("f", "{\"a\": \"xy\"}", false));
  push("}");
  EXPECT_EQ(lexed.calls, One("f", "{\"a\": \"xy\"}"));
}

TEST(ChatmlLexer, WithoutToolsTheMarkupIsText) {
  for (const Family family : kFamilies) {
    const Lexed lexed = LexOf(family, Plain(), "<tool_call>{}</tool_call>\n<|im_end|>");
    EXPECT_EQ(lexed.content, "<tool_call>{}</tool_call>\n");
    EXPECT_TRUE(lexed.calls.empty());
  }
}

TEST(ChatmlLexer, LettersOfTheMarkAreTextWhereItIsAToken) {
  const Format& format = SampleFormat(Family::kQwen25);
  std::vector<TokenId> tokens;
  format.bpe().Encode("<tool_call>{\"name\":\"f\"}</tool_call>", tokens);
  EXPECT_EQ(Lex(format, WithTools(), tokens).content, "<tool_call>{\"name\":\"f\"}</tool_call>");
}

TEST(ChatmlLexer, WhatIsNoCallIsText) {
  for (const std::string_view text :
       {"a\n\n<tool_call>\nhello</tool_call>", "<tool_call>", "<tool_call>[1]</tool_call>",
        "<tool_call>{\"name\": 7, \"arguments\": {}}</tool_call> b",
        "<tool_call>{\"arguments\": {\"a\": 1}}</tool_call>",
        "<tool_call>{\"name\": \"f\", \"arguments\": 3}</tool_call>", "<tool_cal", "\n<", "<tool",
        "<<tool_call\n"}) {
    const Lexed lexed = LexOf(Family::kSmollm2, WithTools(), text);
    EXPECT_EQ(lexed.content, text);
    EXPECT_EQ(lexed.tokens, text);
    EXPECT_TRUE(lexed.calls.empty()) << text;
    EXPECT_FALSE(lexed.is_cut);
  }
}

TEST(ChatmlLexer, ACallBehindTextThatLookedLikeOneIsRead) {
  const Lexed lexed = LexOf(Family::kSmollm2, WithTools(),
                            "<tool_call><tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>");
  EXPECT_EQ(lexed.content, "<tool_call>");
  EXPECT_EQ(lexed.calls, One("f", "{}"));
}

TEST(ChatmlLexer, MembersMayComeInAnyOrderAndOthersAreLeftOut) {
  const Lexed lexed = LexOf(Family::kQwen25, WithTools(),
                            "<tool_call>{\"id\": [1, {\"x\": \"y\"}], \"arguments\" : {\"a\" :1 } "
                            ", \"type\": -1.5, \"name\": \"f\"}</tool_call>");
  EXPECT_EQ(lexed.calls, One("f", "{\"a\": 1}"));
  EXPECT_EQ(lexed.content, "");
  EXPECT_FALSE(lexed.is_well_formed);
}

TEST(ChatmlLexer, SmallMistakesAreRepaired) {
  const struct {
    std::string_view text, arguments;
  } kCases[] = {
      {"{\"name\":\"f\",\"arguments\":{\"a\":\"x\ny\\d\\'\",}}", "{\"a\": \"x\\ny\\\\d\\\\'\"}"},
      {"{\"name\":\"f\",\"arguments\":{\"a\":[1,]}", "{\"a\": [1]}"},
      {"[{\"name\":\"f\",\"arguments\":{\"a\":\"\\u12z\"}}", "{\"a\": \"\\\\u12z\"}"},
      {"{\"name\":\"f\",\"arguments\":\"{\\\"a\\\":1}\"}", "{\"a\": 1}"},
      {"{\"name\":\"f\"}", "{}"},
      {R"({"name":"f","arguments":{"a":"\ud800"}})", R"({"a": "\ufffd"})"},
      {R"({"name":"f","arguments":{"a":"\ud83dx\uDE00\ud83d\n\ud83d\ud83d\ude00\u00e9"}})",
       R"({"a": "\ufffdx\ufffd\ufffd\n\ufffd\ud83d\ude00\u00e9"})"},
      {R"({"name":"f","arguments":{"a":"\ud83d\u12z\ud83d\d"}})",
       R"({"a": "\ufffd\\u12z\ufffd\\d"})"},
  };
  for (const auto& c : kCases) {
    const Lexed lexed = LexOf(Family::kSmollm2, WithTools(),
                              "<tool_call>" + std::string(c.text) + "</tool_call><|im_end|>");
    EXPECT_EQ(lexed.calls, One("f", std::string(c.arguments))) << c.text;
    EXPECT_TRUE(Json::Parse(c.arguments).has_value());
    EXPECT_FALSE(lexed.is_well_formed);
    EXPECT_EQ(lexed.content, "");
  }
}

TEST(ChatmlLexer, ACallThatBreaksBehindItsBeginningIsCutAndEndsTheAnswer) {
  const Lexed lexed =
      LexOf(Family::kQwen25, WithTools(),
            "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":oops}}</tool_call> and more");
  EXPECT_EQ(lexed.calls, One("f", "{\"a\": ", false));
  EXPECT_TRUE(lexed.is_cut);
  EXPECT_EQ(lexed.ended, OutputEnd::kCallsClosed);
  EXPECT_EQ(lexed.content, "");
}

TEST(ChatmlLexer, TextBehindCallsEndsTheAnswer) {
  for (const Family family : kFamilies) {
    const Lexed lexed = LexOf(family, WithTools(),
                              "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\n\nThe "
                              "result is 7");
    EXPECT_EQ(lexed.calls, One("f", "{}"));
    EXPECT_EQ(lexed.content, "");
    EXPECT_EQ(lexed.ended, OutputEnd::kCallsClosed);
    EXPECT_EQ(lexed.n_tokens, family == Family::kQwen25 ? 29 : 50);
  }
}

TEST(ChatmlLexer, AnEmptyListCallsNothing) {
  const Lexed lexed =
      LexOf(Family::kSmollm2, WithTools(), "No.<tool_call>[]</tool_call><|im_end|>");
  EXPECT_EQ(lexed.content, "No.");
  EXPECT_TRUE(lexed.calls.empty());
  EXPECT_EQ(lexed.ended, OutputEnd::kEndOfSentence);
}

TEST(ChatmlLexer, AtALimitNothingIsShownOfACallThatHadNotBegun) {
  for (const std::string_view text : {"ok\n<tool_ca", "ok\n<tool_call>\n{\"name\": \"f"}) {
    const Lexed lexed = LexOf(Family::kSmollm2, WithTools(), text, true);
    EXPECT_EQ(lexed.content, text[4] == 't' && text.size() == 11 ? "ok\n" : "ok");
    EXPECT_TRUE(lexed.calls.empty());
  }
  const Lexed lexed = LexOf(Family::kSmollm2, WithTools(),
                            "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":\"b", true);
  EXPECT_EQ(lexed.calls, One("f", "{\"a\": \"b", false));
}

TEST(ChatmlLexer, AnOpeningInThePromptIsReadFirst) {
  const Lexed required = LexOf(Family::kQwen25, Opened("<tool_call>\n{\"name\":"),
                               " \"f\", \"arguments\": {\"a\": 1}}\n</tool_call><|im_end|>");
  EXPECT_EQ(required.calls, One("f", "{\"a\": 1}"));
  EXPECT_TRUE(required.is_well_formed);
  const Lexed named =
      LexOf(Family::kSmollm2, Opened("<tool_call>[{\"name\": \"f\", \"arguments\":"),
            " {\"a\": 1}}]</tool_call><|im_end|>");
  EXPECT_EQ(named.calls, One("f", "{\"a\": 1}"));
  EXPECT_TRUE(named.is_well_formed);
  const Lexed text =
      LexOf(Family::kSmollm2, Opened("<tool_call>[{\"name\":"), "I cannot.<|im_end|>");
  EXPECT_EQ(text.content, "I cannot.");
  EXPECT_EQ(text.tokens, "I cannot.");
  EXPECT_TRUE(text.calls.empty());
}

TEST(ChatmlLexer, StopStringsAreFoundInContentOnly) {
  AnswerSpec spec = WithTools();
  spec.stops = {"name", "\n<x", "END"};
  const Lexed lexed = LexOf(Family::kSmollm2, spec,
                            "a\n<tool_call>{\"name\":\"f\",\"arguments\":{\"END\":1}}</tool_call>");
  EXPECT_EQ(lexed.calls, One("f", "{\"END\": 1}"));
  EXPECT_EQ(lexed.content, "a");
  const Lexed stopped = LexOf(Family::kSmollm2, spec, "a\n<xyz");
  EXPECT_EQ(stopped.content, "a");
  EXPECT_EQ(stopped.ended, OutputEnd::kStopString);
  EXPECT_EQ(stopped.n_tokens, 4);
  // Also in what turned out to be no call.
  EXPECT_EQ(LexOf(Family::kSmollm2, spec, "<tool_call>{\"name\": 1}").content, "<tool_call>{\"");
}

TEST(ChatmlLexer, ContentThatMayBeginAStopStringIsShownInFrontOfACall) {
  AnswerSpec spec = WithTools();
  spec.stops = {"\n\nUser", "a much longer", "k<tool_call>"};
  const std::string call = "<tool_call>[{\"name\":\"f\",\"arguments\":{}}]</tool_call>";
  for (const Family family : kFamilies) {
    for (const std::string_view content : {"Ok \n\nUs", "I call a", "ok", "\n\nUser\n\nUse"}) {
      const Lexed lexed = LexOf(family, spec, std::string(content) + call);
      if (content.starts_with('\n')) {
        EXPECT_EQ(lexed.content, "");
        EXPECT_EQ(lexed.ended, OutputEnd::kStopString);
        continue;
      }
      EXPECT_EQ(lexed.content, content);
      EXPECT_EQ(lexed.tokens, content);
      EXPECT_EQ(lexed.n_entries, std::ssize(content));
      EXPECT_EQ(lexed.calls, One("f", "{}"));
    }
    // Nor is it lost where a limit cuts the call, or where the call calls nothing.
    EXPECT_EQ(LexOf(family, spec, "I call a<tool_call>{", true).content, "I call a");
    EXPECT_EQ(LexOf(family, spec, "I call a<tool_call>[]</tool_call> much longer").content,
              "I call a much longer");
  }
}

TEST(ChatmlLexer, HeldJsonIsShownInFrontOfACall) {
  AnswerSpec spec = WithTools();
  spec.is_json = true;
  const std::string call = "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>";
  const struct {
    std::string_view content, shown;
  } kCases[] = {{"I call f", "I call f"}, {"{\"a\": 1}", "{\"a\": 1}"}, {"``", "``"}};
  for (const Family family : kFamilies) {
    for (const auto& c : kCases) {
      for (const char* stop : {"f for", "1}.", "``x"}) {
        spec.stops = {stop};
        const Lexed lexed = LexOf(family, spec, std::string(c.content) + call);
        EXPECT_EQ(lexed.content, c.shown);
        EXPECT_EQ(lexed.tokens, c.shown);
        EXPECT_EQ(lexed.calls, One("f", "{}"));
      }
    }
    spec.stops = {"call"};
    const Lexed stopped = LexOf(family, spec, "I call f" + call);
    EXPECT_EQ(stopped.content, "I ");
    EXPECT_EQ(stopped.ended, OutputEnd::kStopString);
    EXPECT_TRUE(stopped.calls.empty());
  }
}

TEST(ChatmlLexer, NumbersAreReadByTheirGrammar) {
  for (const std::string number :
       {"1e400", "-1E+400", "0", "-0.50", "10e-7", "123456789012345678901", "true", "null"}) {
    const Lexed lexed = LexOf(Family::kQwen25, WithTools(),
                              "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": " + number +
                                  "}}</tool_call><|im_end|>");
    EXPECT_EQ(lexed.calls, One("f", "{\"a\": " + number + "}"));
    EXPECT_FALSE(lexed.is_cut);
    EXPECT_TRUE(lexed.is_well_formed);
  }
  for (const std::string word : {"01", "-", ".5", "1.", "1e", "1e+", "+1", "1.5.2", "tru", "e5"}) {
    const Lexed lexed =
        LexOf(Family::kQwen25, WithTools(),
              "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": " + word + "}}</tool_call>");
    EXPECT_TRUE(lexed.is_cut) << word;
  }
}

TEST(ChatmlLexer, BrokenBytesBecomeReplacementCharactersAndAnUnfinishedOneIsDropped) {
  const Format& format = SampleFormat(Family::kSmollm2);
  const std::vector<TokenId> tokens = {TokenId(0xE4), TokenId('a'), TokenId(0xF0), TokenId(0x9F)};
  const Lexed lexed = Lex(format, Plain(), tokens);
  EXPECT_EQ(lexed.content, "\uFFFDa");
  EXPECT_EQ(lexed.n_entries, 2);
}

TEST(ChatmlLexer, StrayControlTokensAreRemovedOrShown) {
  AnswerSpec spec = Plain();
  EXPECT_EQ(LexOf(Family::kSmollm2, spec, "a<|im_start|>b<file_sep>").content, "ab");
  spec.profile.remove_stray_specials = false;
  EXPECT_EQ(LexOf(Family::kSmollm2, spec, "a<|im_start|>b").content, "a<|im_start|>b");
}

TEST(ChatmlLexer, JsonModeShowsTheJsonOnly) {
  AnswerSpec spec = Plain();
  spec.is_json = true;
  EXPECT_EQ(LexOf(Family::kQwen25, spec, "Here:\n```json\n{\"a\": 1}\n```\nok<|im_end|>").content,
            "{\"a\": 1}");
}

TEST(ChatmlLexer, WhatIsHeldIsBounded) {
  const std::string feeds(10'000, '\n');
  EXPECT_EQ(LexOf(Family::kSmollm2, WithTools(), feeds).content, feeds);
  const std::string open = "<tool_call>{\"x\": \"" + std::string(40'000, 'y');
  EXPECT_EQ(LexOf(Family::kSmollm2, WithTools(), open).content, open);
}

}  // namespace
}  // namespace sluice::codec::chatml
