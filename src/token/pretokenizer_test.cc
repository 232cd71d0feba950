#include "token/pretokenizer.h"

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
    std::string joined;
    for (const std::string_view piece : PiecesOf(text)) joined += piece;
    ASSERT_EQ(joined, text) << "seed " << kSeed << " round " << round;
  }
}

std::string Refusal(std::string_view from, std::string_view to) {
  std::string text(kSamplePretokenizer);
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos);
  text.replace(at, from.size(), to);
  const Result<Json> json = Json::Parse(text);
  const Status status = CheckPretokenizer(json->root());
  EXPECT_EQ(status.code(), ErrorCode::kUnsupported);
  return std::string(status.message());
}

TEST(CheckPretokenizer, KnowsOneAndNamesAnyOther) {
  EXPECT_TRUE(CheckPretokenizer(Json::Parse(kSamplePretokenizer)->root()).ok());
  const std::string only =
      "; only the pre-tokenizer of DeepSeek-V3 and later is built in: a Sequence of three Split "
      "and a ByteLevel";
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
  EXPECT_FALSE(CheckPretokenizer(JsonValue()).ok());
}

}  // namespace
}  // namespace sluice::token
