#include "codec/format/deepseek_v41/reasoning_counter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "codec/cut_format_test_impl.h"

namespace sluice::codec::deepseek_v41 {
namespace {

int32_t TokensIn(const std::string& text) {
  std::vector<TokenId> ids;
  CutFormat().bpe().EncodeWithAdded(text, ids);
  return static_cast<int32_t>(ids.size());
}

int32_t CountOf(const std::string& text, size_t n_bytes_each) {
  ReasoningCounter counter(CutFormat().bpe());
  for (size_t at = 0; at < text.size(); at += n_bytes_each) {
    counter.Add(std::string_view(text).substr(at, n_bytes_each));
  }
  return counter.Count();
}

TEST(ReasoningCounter, NothingIsNoToken) { EXPECT_EQ(CountOf("", 1), 0); }

TEST(ReasoningCounter, CountsAsOneEncodingOfTheWholeTextHoweverItComes) {
  const std::vector<std::string> pieces = {
      "word", " word",     " and", "\n",     "\n\n",     "  ",       "1234567",  " 42",
      "x=1;", "(",         ")",    ".",      ", ",       "don't",    "Größe",    "日本語",
      "。",   "，",        "カナ", "한국어", "🙂",       "</think>", "｜DSML｜", "<",
      "\t",   "camelCase", "_",    "\r\n",   "e\xCC\x81"};
  const int seed = testing::UnitTest::GetInstance()->random_seed();
  std::printf("seed %d (--gtest_random_seed)\n", seed);
  std::mt19937_64 random(static_cast<uint64_t>(seed));
  for (int round = 0; round < 60; ++round) {
    std::string text;
    for (size_t n = random() % 900; n > 0; --n) text += pieces[random() % pieces.size()];
    for (const size_t n_bytes : {size_t{1}, size_t{1} + random() % 40, text.size() + 1}) {
      ASSERT_EQ(CountOf(text, n_bytes), TokensIn(text)) << text;
    }
  }
}

TEST(ReasoningCounter, CountsWhileTheTextGoesOn) {
  const std::string sentence = "One thing after another, and so on. ";
  ReasoningCounter counter(CutFormat().bpe());
  std::string text;
  for (int i = 0; i < 200; ++i) {
    counter.Add(sentence);
    text += sentence;
    ASSERT_EQ(counter.Count(), TokensIn(text));
  }
}

TEST(ReasoningCounter, ATextWithoutAnyPlaceToCutIsOffByAtMostOneForEachCut) {
  const std::string text(100'000, 'a');
  const int32_t count = CountOf(text, 7);
  EXPECT_GE(count, TokensIn(text));
  EXPECT_LE(count, TokensIn(text) + 100'000 / 16'384);
}

}  // namespace
}  // namespace sluice::codec::deepseek_v41
