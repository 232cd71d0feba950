#include "base/utf8.h"

#include <gtest/gtest.h>

#include <utility>

namespace sluice {
namespace {

std::string Repaired(std::string_view bytes) {
  std::string out;
  AppendValidUtf8(out, bytes);
  return out;
}

TEST(Utf8, TailThatMayStillBecomeACharacterIsCounted) {
  EXPECT_EQ(IncompleteTail(""), 0);
  EXPECT_EQ(IncompleteTail("abc"), 0);
  EXPECT_EQ(IncompleteTail("\xF0\x9F\x99\x82"), 0);
  EXPECT_EQ(IncompleteTail("a\xF0"), 1);
  EXPECT_EQ(IncompleteTail("a\xF0\x9F"), 2);
  EXPECT_EQ(IncompleteTail("a\xF0\x9F\x99"), 3);
  EXPECT_EQ(IncompleteTail("\xC3"), 1);
  EXPECT_EQ(IncompleteTail("\xE4\xB8"), 2);
}

TEST(Utf8, TailThatCanNeverBecomeACharacterIsNotCounted) {
  EXPECT_EQ(IncompleteTail("\x80\x80\x80\x80"), 0);
  EXPECT_EQ(IncompleteTail("\xE0\x80"), 0);      // overlong
  EXPECT_EQ(IncompleteTail("\xED\xA0"), 0);      // surrogate
  EXPECT_EQ(IncompleteTail("\xF4\x90\x80"), 0);  // above U+10FFFF
  EXPECT_EQ(IncompleteTail("\xC0"), 0);
  EXPECT_EQ(IncompleteTail("\xFF"), 0);
  EXPECT_EQ(IncompleteTail("a\x80"), 0);
}

TEST(Utf8, TheFirstCharacterIsWholeOrNone) {
  const auto first = [](std::string_view text) {
    const Utf8Character character = FirstCharacter(text);
    return std::pair<uint32_t, int>(character.point, character.n_bytes);
  };
  using Pair = std::pair<uint32_t, int>;
  EXPECT_EQ(first("ab"), Pair(0x61, 1));
  EXPECT_EQ(first(std::string_view("\0", 1)), Pair(0, 1));
  EXPECT_EQ(first("\xC3\xA9"), Pair(0xE9, 2));
  EXPECT_EQ(first("\xE4\xBD\xA0x"), Pair(0x4F60, 3));
  EXPECT_EQ(first("\xF4\x8F\xBF\xBF"), Pair(0x10FFFF, 4));
  for (const char* none :
       {"", "\x80", "\xE4\xBD", "\xC0\x80", "\xED\xA0\x80", "\xF5\x80\x80\x80"}) {
    EXPECT_EQ(first(none), Pair(0, 0)) << none;
  }
}

TEST(Utf8, ValidTextIsCopied) {
  for (std::string_view text :
       {"", "plain", "käse 世界 🙂", "\xED\x9F\xBF\xEE\x80\x80\xF4\x8F\xBF\xBF"}) {
    EXPECT_EQ(Repaired(text), text);
    EXPECT_EQ(ValidUtf8Prefix(text), text.size());
  }
}

TEST(Utf8, EachMaximalSubpartBecomesOneReplacementCharacter) {
  EXPECT_EQ(Repaired("a\xFFz"), "a\uFFFDz");
  EXPECT_EQ(Repaired("\xF0\x9F\x99"
                     "a"),
            "\uFFFDa");                                       // one cut character
  EXPECT_EQ(Repaired("\xE0\x80\x80"), "\uFFFD\uFFFD\uFFFD");  // E0 80 cannot begin one
  EXPECT_EQ(Repaired("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(Repaired("\xF4\x90\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(Repaired("\xC3\xC3\xA4"), "\uFFFDä");
  // The example of the Unicode standard, table 3-11.
  EXPECT_EQ(Repaired("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), "\uFFFD\uFFFD\uFFFD\uFFFDA");
}

// An independent statement of validity: decode the bits, then look at the number.
bool IsValidByArithmetic(const std::string& s) {
  uint32_t code = 0;
  size_t n = s.size();
  unsigned char lead = static_cast<unsigned char>(s[0]);
  if (n == 1) return lead < 0x80;
  if (n == 2) code = lead & 0x1F;
  if (n == 3) code = lead & 0x0F;
  if (n == 4) code = lead & 0x07;
  if ((n == 2 && lead >> 5 != 6) || (n == 3 && lead >> 4 != 14) || (n == 4 && lead >> 3 != 30))
    return false;
  for (size_t i = 1; i < n; ++i) {
    unsigned char c = static_cast<unsigned char>(s[i]);
    if (c >> 6 != 2) return false;
    code = code << 6 | (c & 0x3F);
  }
  const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
  return code >= smallest[n] && code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF);
}

TEST(Utf8, EverySequenceOfEdgeBytesIsJudgedAsArithmeticSays) {
  const unsigned char edges[] = {0x00, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF,
                                 0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xEC, 0xED, 0xEE,
                                 0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFF};
  for (size_t n = 1; n <= 4; ++n) {
    size_t n_cases = 1;
    for (size_t i = 0; i < n; ++i) n_cases *= std::size(edges);
    for (size_t k = 0; k < n_cases; ++k) {
      std::string s;
      for (size_t i = 0, rest = k; i < n; ++i, rest /= std::size(edges)) {
        s.push_back(static_cast<char>(edges[rest % std::size(edges)]));
      }
      // Any split into characters, each of them valid.
      bool valid[5] = {true, false, false, false, false};
      for (size_t end = 1; end <= n; ++end) {
        for (size_t begin = 0; begin < end; ++begin) {
          if (valid[begin] && IsValidByArithmetic(s.substr(begin, end - begin))) valid[end] = true;
        }
      }
      ASSERT_EQ(ValidUtf8Prefix(s) == n, valid[n]) << testing::PrintToString(s);
    }
  }
}

}  // namespace
}  // namespace sluice
