#include "token/pretokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/rng.h"
#include "token/sample_tokenizer_test_impl.h"

namespace sluice::token {
namespace {

using Pieces = std::vector<std::string_view>;

TEST(Pretokenizer, NumbersAreCutInThreesFromTheLeft) {
  EXPECT_EQ(PiecesOf("1234567"), (Pieces{"123", "456", "7"}));
  EXPECT_EQ(PiecesOf("a12"), (Pieces{"a", "12"}));
  EXPECT_EQ(PiecesOf("1٢三4"), (Pieces{"1٢", "三", "4"}));
  EXPECT_EQ(PiecesOf("x²½Ⅷ9"), (Pieces{"x", "²½Ⅷ", "9"}));
}

TEST(Pretokenizer, ChineseAndJapaneseAreCutOffAndThenCutAsTheRest) {
  EXPECT_EQ(PiecesOf("ab中文cd"), (Pieces{"ab", "中文", "cd"}));
  EXPECT_EQ(PiecesOf("ア・イ"), (Pieces{"ア", "・", "イ"}));
  EXPECT_EQ(PiecesOf(" 中"), (Pieces{" ", "中"}));
  // U+9FA6 is a letter outside of the range; U+3040 is unassigned inside of it.
  EXPECT_EQ(PiecesOf("龥\u9FA6"), (Pieces{"龥", "\u9FA6"}));
  EXPECT_EQ(PiecesOf("\u3040あ\u3040"), (Pieces{"\u3040あ", "\u3040"}));
  EXPECT_EQ(PiecesOf("a\u3099"), (Pieces{"a", "\u3099"}));
}

TEST(Pretokenizer, ALetterRunTakesOneCharacterBeforeIt) {
  EXPECT_EQ(PiecesOf("hello world"), (Pieces{"hello", " world"}));
  EXPECT_EQ(PiecesOf("a\tb"), (Pieces{"a", "\tb"}));
  EXPECT_EQ(PiecesOf("\x01\x01z"), (Pieces{"\x01", "\x01z"}));
  EXPECT_EQ(PiecesOf("e\u0301a"), (Pieces{"e\u0301a"}));
  EXPECT_EQ(PiecesOf("1\u0301"), (Pieces{"1", "\u0301"}));
  EXPECT_EQ(PiecesOf("\nb"), (Pieces{"\n", "b"}));
}

TEST(Pretokenizer, OneAsciiSymbolTakesTheAsciiLettersBehindIt) {
  EXPECT_EQ(PiecesOf("_foo.bar"), (Pieces{"_foo", ".bar"}));
  EXPECT_EQ(PiecesOf("#été"), (Pieces{"#", "été"}));
  EXPECT_EQ(PiecesOf("x=é"), (Pieces{"x", "=", "é"}));
  EXPECT_EQ(PiecesOf("((a"), (Pieces{"((", "a"}));
}

TEST(Pretokenizer, SymbolsTakeASpaceBeforeAndNewlinesBehind) {
  EXPECT_EQ(PiecesOf("a !?\r\n\nb"), (Pieces{"a", " !?\r\n\n", "b"}));
  EXPECT_EQ(PiecesOf("  ..."), (Pieces{" ", " ..."}));
  EXPECT_EQ(PiecesOf("\t+ "), (Pieces{"\t", "+", " "}));
}

TEST(Pretokenizer, WhiteSpaceLeavesItsLastCharacterToTheTextOfItsPiece) {
  EXPECT_EQ(PiecesOf("a   b"), (Pieces{"a", "  ", " b"}));
  EXPECT_EQ(PiecesOf("a   "), (Pieces{"a", "   "}));
  EXPECT_EQ(PiecesOf("  \n\n  y"), (Pieces{"  \n\n", " ", " y"}));
  EXPECT_EQ(PiecesOf("x \n \t"), (Pieces{"x", " \n", " \t"}));
  // Numbers and Chinese were cut off before: nothing follows.
  EXPECT_EQ(PiecesOf("a  1"), (Pieces{"a", "  ", "1"}));
  EXPECT_EQ(PiecesOf("a  中"), (Pieces{"a", "  ", "中"}));
  EXPECT_EQ(PiecesOf("  \u0378"), (Pieces{" ", " ", "\u0378"}));
  EXPECT_EQ(PiecesOf("\u3000\u2028a"), (Pieces{"\u3000", "\u2028a"}));
}

TEST(Pretokenizer, CharactersWithoutAClassStayTogetherBetweenMatches) {
  EXPECT_EQ(PiecesOf("\u0378\u200D\x01!"), (Pieces{"\u0378\u200D\x01", "!"}));
  EXPECT_EQ(PiecesOf("a\xFF\xC3 b"), (Pieces{"a", "\xFF\xC3", " b"}));
  EXPECT_EQ(PiecesOf("\u0378\u200Dあ"), (Pieces{"\u0378\u200D", "あ"}));
  // Cut off, an overlong "A", a code point beyond the last.
  EXPECT_EQ(PiecesOf(" \xE4\xBD"), (Pieces{" ", "\xE4\xBD"}));
  EXPECT_EQ(PiecesOf(" \xE0\x81\x81"), (Pieces{" ", "\xE0\x81\x81"}));
  EXPECT_EQ(PiecesOf(" \xF4\x90\x80\x80"), (Pieces{" ", "\xF4\x90\x80\x80"}));
  EXPECT_EQ(PiecesOf(""), Pieces{});
}

TEST(Pretokenizer, PiecesJoinedAreTheText) {
  const std::vector<std::string> parts = {
      "a",  "Z",  "é",    "1",    "٣",    " ",  "\n",     "\r",     "\t", "!", "·", "中", "あ",
      "・", "　", "\x01", "\xFF", "\xE4", "🙂", "\u0301", "\u3040", "½",  "_", "<", "｜", "\u200D"};
  constexpr uint64_t kSeed = 5;
  for (uint64_t round = 0; round < 2000; ++round) {
    std::string text;
    for (uint64_t i = 0; i < 1 + round % 40; ++i) {
      text += parts[RandomBits({.seed = kSeed, .position = i, .stream = round}) % parts.size()];
    }
    for (const TextRules rules : {TextRules::kDeepseekV3, TextRules::kSmollm, TextRules::kQwen2}) {
      std::string joined;
      for (const std::string_view piece : PiecesOf(text, rules)) joined += piece;
      ASSERT_EQ(joined, text) << "seed " << kSeed << " round " << round;
    }
  }
}

TEST(SmollmRules, EachNumberIsByItselfAndCutsOffTheSpacesBeforeIt) {
  const auto pieces = [](std::string_view text) { return PiecesOf(text, TextRules::kSmollm); };
  EXPECT_EQ(pieces("a 12 ½3"), (Pieces{"a", " ", "1", "2", " ", "½", "3"}));
  EXPECT_EQ(pieces("a  1"), (Pieces{"a", "  ", "1"}));
  EXPECT_EQ(pieces("it's I'LL we'll'"), (Pieces{"it", "'s", " I", "'", "LL", " we", "'ll", "'"}));
  EXPECT_EQ(pieces("a \n\n  b"), (Pieces{"a", " \n\n ", " b"}));
  EXPECT_EQ(pieces("x\u0301!?\xFF y"), (Pieces{"x", "\u0301!?\xFF", " y"}));
  EXPECT_EQ(pieces("\u00A0a\t"), (Pieces{"\u00A0", "a", "\t"}));
}

TEST(QwenRules, NumbersAreSinglesAndLettersTakeOneCharacterBeforeThem) {
  const auto pieces = [](std::string_view text) { return PiecesOf(text, TextRules::kQwen2); };
  EXPECT_EQ(pieces("a  12"), (Pieces{"a", " ", " ", "1", "2"}));
  EXPECT_EQ(pieces("I'LL a'\u017Fx (y"), (Pieces{"I", "'LL", " a", "'\u017F", "x", " (", "y"}));
  EXPECT_EQ(pieces("\tfoo_bar"), (Pieces{"\tfoo", "_bar"}));
  EXPECT_EQ(pieces("a!\r\n\n b"), (Pieces{"a", "!\r\n\n", " b"}));
  EXPECT_EQ(pieces("a \n \n  b"), (Pieces{"a", " \n \n", " ", " b"}));
  EXPECT_EQ(pieces("x\u0301y"), (Pieces{"x", "\u0301y"}));
  EXPECT_EQ(pieces("\nb  "), (Pieces{"\n", "b", "  "}));
}

std::string Refusal(std::string_view from, std::string_view to) {
  std::string text(kSamplePretokenizer);
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos);
  text.replace(at, from.size(), to);
  const Result<Json> json = Json::Parse(text);
  const Result<TextRules> rules = FindTextRules(json->root());
  if (rules) return "accepted";
  EXPECT_EQ(rules.error().code(), ErrorCode::kUnsupported);
  return std::string(rules.error().message());
}

TEST(FindTextRules, KnowsThreeAndNamesAnyOther) {
  for (const TextRules rules : {TextRules::kDeepseekV3, TextRules::kSmollm, TextRules::kQwen2}) {
    const Result<Json> json = Json::Parse(PretokenizerOf(rules));
    ASSERT_TRUE(json.has_value()) << json.error().message();
    const Result<TextRules> found = FindTextRules(json->root());
    ASSERT_TRUE(found.has_value()) << found.error().message();
    EXPECT_EQ(*found, rules);
  }
  const std::string only =
      "; only the pre-tokenizers of DeepSeek-V3 and later, SmolLM2 and Qwen2 are built in";
  EXPECT_EQ(Refusal("Sequence", "Whitespace"), "pre_tokenizer: its type is \"Whitespace\"" + only);
  EXPECT_EQ(Refusal("{1,3}", "{1,2}"),
            "pre_tokenizer: part 0 has the pattern \"\\\\p{N}{1,2}\"" + only);
  EXPECT_EQ(Refusal("\"Regex\":\"[一", "\"String\":\"[一"),
            "pre_tokenizer: part 1 has the pattern missing" + only);
  EXPECT_EQ(Refusal("Isolated", "Removed"),
            "pre_tokenizer: part 0 is no Split with the behavior Isolated" + only);
  EXPECT_EQ(
      Refusal("\"use_regex\":false", "\"use_regex\":true"),
      "pre_tokenizer: part 3 is no ByteLevel with use_regex and add_prefix_space false" + only);
  EXPECT_EQ(Refusal("]}", ",{}]}"), "pre_tokenizer: its Sequence has 5 parts" + only);
  EXPECT_FALSE(FindTextRules(JsonValue()).has_value());
}

TEST(FindTextRules, TellsWhatDiffersFromTheNearest) {
  const auto refusal = [](std::string_view of, std::string_view from, std::string_view to) {
    std::string text(of);
    text.replace(text.find(from), from.size(), to);
    const Result<TextRules> rules = FindTextRules(Json::Parse(text)->root());
    return std::string(rules ? "accepted" : rules.error().message());
  };
  EXPECT_THAT(
      refusal(kSmollmPretokenizer, "\"individual_digits\":true", "\"individual_digits\":0"),
      testing::StartsWith("pre_tokenizer: part 0 is no Digits with individual_digits true"));
  EXPECT_THAT(refusal(kSmollmPretokenizer, "\"use_regex\":true", "\"use_regex\":false"),
              testing::StartsWith("pre_tokenizer: part 1 is no ByteLevel with use_regex true"));
  EXPECT_EQ(refusal(kSmollmPretokenizer, ",\"use_regex\":true", ""), "accepted");
  EXPECT_THAT(refusal(kQwenPretokenizer, "\"use_regex\":false", "\"use_regex\":true"),
              testing::StartsWith("pre_tokenizer: part 1 is no ByteLevel with use_regex and"));
}

TEST(TextRulesNamed, KnowsTheNamesOfGguf) {
  EXPECT_EQ(*TextRulesNamed("smollm"), TextRules::kSmollm);
  EXPECT_EQ(*TextRulesNamed("qwen2"), TextRules::kQwen2);
  EXPECT_EQ(*TextRulesNamed("deepseek-v3"), TextRules::kDeepseekV3);
  EXPECT_EQ(TextRulesNamed("llama-bpe").error().message(),
            "tokenizer.ggml.pre is \"llama-bpe\"; built in are deepseek-v3, smollm, qwen2");
}

}  // namespace
}  // namespace sluice::token
