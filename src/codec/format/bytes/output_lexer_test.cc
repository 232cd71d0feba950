#include "codec/format/bytes/output_lexer.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace sluice::codec::bytes {
namespace {

struct Output {
  std::string reasoning;
  std::string content;
  std::string tokens;  // bytes of the entries, in order of their text
  int32_t n_entries = 0;
  int32_t n_tokens = 0;
  int32_t n_reasoning = 0;
  bool stopped = false;

  friend bool operator==(const Output&, const Output&) = default;
};

struct Case {
  std::string text;
  std::vector<std::string> stops;
  OutputStart start = OutputStart::kReasoning;
  bool logprobs = false;
};

void Collect(std::span<const OutputEvent> events, Output& output) {
  for (const OutputEvent& event : events) {
    EXPECT_FALSE(event.text.empty());
    (event.kind == OutputKind::kReasoning ? output.reasoning : output.content) += event.text;
    for (const TokenText& token : event.logprobs) {
      output.tokens += token.text;
      ++output.n_entries;
    }
  }
}

// Pieces of `sizes` bytes, used cyclically.
Output Lex(const Case& c, const std::vector<size_t>& sizes) {
  StopSet stops(c.stops);
  OutputLexer lexer({.start = c.start, .stops = stops, .logprobs = c.logprobs});
  Output output;
  for (size_t at = 0, i = 0; at < c.text.size() && !lexer.stopped(); ++i) {
    std::vector<TokenId> tokens;
    std::vector<wire::TokenLogprob> logprobs;
    for (size_t n = sizes[i % sizes.size()]; n > 0 && at < c.text.size(); --n, ++at) {
      tokens.push_back(TokenId(static_cast<uint8_t>(c.text[at])));
      logprobs.push_back({.logprob = -0.5f, .alternatives = {}});
    }
    Collect(lexer.Push(tokens, c.logprobs ? std::span<const wire::TokenLogprob>(logprobs)
                                          : std::span<const wire::TokenLogprob>()),
            output);
  }
  if (!lexer.stopped()) Collect(lexer.End(), output);
  output.n_tokens = lexer.n_tokens();
  output.n_reasoning = lexer.n_reasoning();
  output.stopped = lexer.stopped();
  return output;
}

Output Lex(const Case& c) { return Lex(c, {1}); }

TEST(OutputLexer, CutsReasoningFromContentAtTheMark) {
  Output output = Lex({.text = "\n\nplan\n\n</think>\n\nanswer\n"});
  EXPECT_EQ(output.reasoning, "plan");
  EXPECT_EQ(output.content, "answer\n");
  EXPECT_EQ(output.n_reasoning, 4);
  EXPECT_EQ(output.n_tokens, 25);
}

TEST(OutputLexer, KeepsWhatOnlyLooksLikeTheMark) {
  EXPECT_EQ(Lex({.text = "a\n</thin\n</b</think>c"}).reasoning, "a\n</thin\n</b");
  EXPECT_EQ(Lex({.text = "a\n\n</think"}).reasoning, "a\n\n</think");
}

TEST(OutputLexer, DropsAStrayMarkAndKeepsLineFeedsBehindIt) {
  EXPECT_EQ(Lex({.text = "</think>\n\nb", .start = OutputStart::kContent}).content, "\n\nb");
  EXPECT_EQ(Lex({.text = "a</think>\nb", .start = OutputStart::kContent}).content, "a\nb");
}

TEST(OutputLexer, AContinuedTextKeepsItsLeadingLineFeeds) {
  EXPECT_EQ(Lex({.text = "\nb", .start = OutputStart::kContentContinued}).content, "\nb");
  Output output = Lex({.text = "\nb</think>\nc", .start = OutputStart::kReasoningContinued});
  EXPECT_EQ(output.reasoning, "\nb");
  EXPECT_EQ(output.content, "c");
}

TEST(OutputLexer, HoldsAnEmojiThatIsCutOverTokens) {
  StopSet none({});
  OutputLexer lexer({.start = OutputStart::kContent, .stops = none, .logprobs = false});
  const std::string emoji = "\xF0\x9F\x9A\xA2";
  for (int i = 0; i < 3; ++i) {
    TokenId token(static_cast<uint8_t>(emoji[i]));
    EXPECT_TRUE(lexer.Push(std::span(&token, 1), {}).empty());
  }
  TokenId token(static_cast<uint8_t>(emoji[3]));
  auto events = lexer.Push(std::span(&token, 1), {});
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].text, emoji);
}

TEST(OutputLexer, ABrokenCharacterIsOneReplacementAndAnIncompleteEndIsDropped) {
  EXPECT_EQ(Lex({.text = "a\x80z", .start = OutputStart::kContent}).content, "a\xEF\xBF\xBDz");
  EXPECT_EQ(Lex({.text = "a\xE2\x82z", .start = OutputStart::kContent}).content, "a\xEF\xBF\xBDz");
  EXPECT_EQ(Lex({.text = "a\xED\xA0\x80z", .start = OutputStart::kContent}).content,
            "a\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBDz");
  EXPECT_EQ(Lex({.text = "t\xF0\x9F</think>x"}).reasoning, "t\xEF\xBF\xBD");
  Output output = Lex({.text = "a\xEF\xBF\xBD\xF0\x9F\x9A", .start = OutputStart::kContent});
  EXPECT_EQ(output.content, "a\xEF\xBF\xBD");
  EXPECT_EQ(output.n_tokens, 7);
}

TEST(OutputLexer, StopsInContentOnlyAndCountsUpToTheStop) {
  Output output = Lex({.text = "say STOP</think>ok STOP no", .stops = {"STOP"}});
  EXPECT_EQ(output.reasoning, "say STOP");
  EXPECT_EQ(output.content, "ok ");
  EXPECT_TRUE(output.stopped);
  EXPECT_EQ(output.n_tokens, 23);
}

TEST(OutputLexer, ANumberThatIsAStopStringStaysInReasoning) {
  // vllm#14170: "cut in reasoning, </think> shown in content".
  Output output = Lex({.text = "9.8 or 9.11</think>It is 9.8 indeed", .stops = {"9.8"}});
  EXPECT_EQ(output.reasoning, "9.8 or 9.11");
  EXPECT_EQ(output.content, "It is ");
}

TEST(OutputLexer, AStopStringNeverCutsTheMark) {
  EXPECT_EQ(
      Lex({.text = "a</think>b", .stops = {"</think>"}, .start = OutputStart::kContent}).content,
      "ab");
  EXPECT_EQ(Lex({.text = "a</think>b", .stops = {"think"}, .start = OutputStart::kContent}).content,
            "ab");
  EXPECT_EQ(Lex({.text = "a</thinb", .stops = {"<"}, .start = OutputStart::kContent}).content, "a");
  EXPECT_EQ(Lex({.text = "a<", .stops = {"<"}, .start = OutputStart::kContent}).content, "a");
}

TEST(OutputLexer, TheEarliestStopStringWinsAndOfTwoThatEndTogetherTheLongest) {
  EXPECT_EQ(
      Lex({.text = "xx <end> yy", .stops = {"<end> yy", "<end>"}, .start = OutputStart::kContent})
          .content,
      "xx ");
  EXPECT_EQ(Lex({.text = "abcd", .stops = {"abcd", "bc"}, .start = OutputStart::kContent}).content,
            "a");
  EXPECT_EQ(Lex({.text = "zabc", .stops = {"bc", "abc"}, .start = OutputStart::kContent}).content,
            "z");
}

TEST(OutputLexer, CountsDoNotGrowBehindTheStop) {
  Output output =
      Lex({.text = "one STOP two", .stops = {"STOP"}, .start = OutputStart::kContent}, {12});
  EXPECT_EQ(output.content, "one ");
  EXPECT_EQ(output.n_tokens, 8);
}

TEST(OutputLexer, HasOneEntryPerTokenOfVisibleText) {
  Output output = Lex({.text = "\nr\n</think>\nab\xE2\x82xSTOP",
                       .stops = {"STOP"},
                       .start = OutputStart::kReasoning,
                       .logprobs = true});
  EXPECT_EQ(output.reasoning, "r");
  EXPECT_EQ(output.content, "ab\xEF\xBF\xBDx");
  EXPECT_EQ(output.tokens, "rab\xE2\x82x");
  EXPECT_EQ(output.n_entries, 6);
}

TEST(OutputLexer, TheEndTokenIsNoText) {
  StopSet none({});
  OutputLexer lexer({.start = OutputStart::kContent, .stops = none, .logprobs = true});
  std::vector<TokenId> tokens = {TokenId('a'), TokenId(256), TokenId(-1)};
  auto events = lexer.Push(tokens, {});
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].text, "a");
  EXPECT_EQ(lexer.n_tokens(), 1);
}

TEST(OutputLexer, AMissingLogprobIsBelowTheReportedRange) {
  StopSet none({});
  OutputLexer lexer({.start = OutputStart::kContent, .stops = none, .logprobs = true});
  TokenId token('a');
  auto events = lexer.Push(std::span(&token, 1), {});
  ASSERT_EQ(events[0].logprobs.size(), 1u);
  EXPECT_EQ(events[0].logprobs[0].logprob, -9999.0f);
}

// Texts of the pieces that matter, in random order: any cut gives the same output.
TEST(OutputLexer, OutputDoesNotDependOnHowItIsCut) {
  const std::vector<std::string> pieces = {"a",
                                           "ab",
                                           "\n",
                                           "\n\n",
                                           "<",
                                           "</",
                                           "</think",
                                           "</think>",
                                           ">",
                                           "STOP",
                                           "ST",
                                           "OP",
                                           "\xF0\x9F\x9A\xA2",
                                           "\xF0\x9F",
                                           "\x80",
                                           "\xE4\xB8\x89",
                                           " ",
                                           "bc"};
  const std::vector<std::vector<std::string>> stop_lists = {
      {},          {"STOP"},         {"\n\n"},    {"\n"}, {"ab", "abc", "bc"}, {"\xE4\xB8\x89"},
      {"<", "k>"}, {"aab", "STOPS"}, {"</think>"}};
  const int seed = testing::UnitTest::GetInstance()->random_seed();
  std::printf("seed %d (--gtest_random_seed)\n", seed);
  std::mt19937_64 random(static_cast<uint64_t>(seed));
  auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  for (int round = 0; round < 4000; ++round) {
    Case c;
    for (size_t n = below(14); n > 0; --n) c.text += pieces[below(pieces.size())];
    c.stops = stop_lists[below(stop_lists.size())];
    c.start = static_cast<OutputStart>(below(4));
    c.logprobs = below(2) == 1;
    const Output by_byte = Lex(c);
    if (c.logprobs && c.stops.empty() &&
        by_byte.content.find("\xEF\xBF\xBD") == std::string::npos &&
        by_byte.reasoning.find("\xEF\xBF\xBD") == std::string::npos) {
      EXPECT_EQ(by_byte.tokens, by_byte.reasoning + by_byte.content);
    }
    EXPECT_EQ(Lex(c, {c.text.size() + 1}), by_byte) << c.text;
    std::vector<size_t> sizes;
    for (int i = 0; i < 5; ++i) sizes.push_back(1 + below(6));
    EXPECT_EQ(Lex(c, sizes), by_byte) << c.text;
  }
}

}  // namespace
}  // namespace sluice::codec::bytes
