#include "token/bpe.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "base/rng.h"
#include "token/sample_tokenizer_test_impl.h"

namespace sluice::token {
namespace {

using Texts = std::vector<std::string>;

struct Sample {
  explicit Sample(const std::vector<TextPair>& merges, const Texts& added = {})
      : vocabulary(std::move(*Vocabulary::Parse(SampleTokenizer(merges, added)))),
        bpe(vocabulary) {}

  Texts Encode(std::string_view text) const {
    std::vector<TokenId> ids;
    bpe.Encode(text, ids);
    return TextsOf(vocabulary, ids);
  }
  Texts EncodeWithAdded(std::string_view text) const {
    std::vector<TokenId> ids;
    bpe.EncodeWithAdded(text, ids);
    return TextsOf(vocabulary, ids);
  }

  const Vocabulary vocabulary;
  const Bpe bpe;
};

TEST(Bpe, LowerRanksGoFirstAndTheLeftmostOfEqualOnes) {
  const Sample sample({{"b", "c"}, {"a", "b"}, {"a", "a"}});
  EXPECT_EQ(sample.Encode("abc"), (Texts{"a", "bc"}));
  EXPECT_EQ(sample.Encode("aaaaa"), (Texts{"aa", "aa", "a"}));
  EXPECT_EQ(sample.Encode("aab"), (Texts{"a", "ab"}));
  EXPECT_EQ(sample.Encode(""), Texts{});
}

// "abc" is a token, and its merges do not lead to it.
TEST(Bpe, APieceThatIsATokenIsMergedStepByStepAllTheSame) {
  const Sample sample({{"b", "c"}, {"a", "b"}, {"ab", "c"}});
  EXPECT_EQ(sample.Encode("abc"), (Texts{"a", "bc"}));
  EXPECT_EQ(sample.Encode("ab"), (Texts{"ab"}));
}

TEST(Bpe, MergesDoNotCrossPieces) {
  const Sample sample({{"a", " "}, {"1", "2"}, {"12", "3"}, {"3", "4"}});
  EXPECT_EQ(sample.Encode("a b"), (Texts{"a", " ", "b"}));
  EXPECT_EQ(sample.Encode("1234"), (Texts{"123", "4"}));
}

TEST(Bpe, AnyByteHasAToken) {
  const Sample sample({});
  std::string text(256, '\0');
  std::iota(text.begin(), text.end(), '\0');
  std::string joined;
  for (const std::string& token : sample.Encode(text)) joined += token;
  EXPECT_EQ(joined, text);
}

TEST(Bpe, AddedTokensCountOnlyWhereTheyAreAskedFor) {
  const Sample sample({{"<", "a"}}, {"<a>", "<a>b", "b<", "é"});
  EXPECT_EQ(sample.Encode("<a>"), (Texts{"<a", ">"}));
  EXPECT_EQ(sample.EncodeWithAdded("x<a>y"), (Texts{"x", "<a>", "y"}));
  EXPECT_EQ(sample.EncodeWithAdded("<a>b<a>"), (Texts{"<a>b", "<a>"}));
  EXPECT_EQ(sample.EncodeWithAdded("b<a>"), (Texts{"b<", "a", ">"}));
  EXPECT_EQ(sample.EncodeWithAdded("<aé<"), (Texts{"<a", "é", "<"}));
  EXPECT_EQ(sample.EncodeWithAdded(""), Texts{});
}

TEST(Bpe, EncodesLikeTheSlowEncoder) {
  const Sample sample({{"a", "b"},
                       {"b", "a"},
                       {"ab", "a"},
                       {" ", "a"},
                       {" a", "b"},
                       {"aba", "b"},
                       {"b", "b"},
                       {"bb", "bb"},
                       {"a", "a"},
                       {"aa", "aa"},
                       {"c", " "},
                       {"b", "ab"}});
  const SlowEncoder slow(sample.vocabulary);
  constexpr uint64_t kSeed = 3;
  for (uint64_t round = 0; round < 3000; ++round) {
    std::string text;
    for (uint64_t i = 0; i < 1 + round % 60; ++i) {
      text += "abab c"[RandomBits({.seed = kSeed, .position = i, .stream = round}) % 6];
    }
    ASSERT_EQ(sample.Encode(text), slow.Encode(text)) << "seed " << kSeed << ": " << text;
  }
}

// Quadratic time would need minutes.
TEST(Bpe, OnePieceOfAMegabyteIsQuick) {
  const Sample sample({{"a", "a"}, {"aa", "aa"}, {"aaaa", "aaaa"}}, {"aaaab"});
  constexpr size_t kBytes = 1 << 20;
  const std::string text(kBytes, 'a');
  std::vector<TokenId> ids;
  sample.bpe.EncodeWithAdded(text, ids);
  EXPECT_EQ(ids.size(), kBytes / 8);
  EXPECT_EQ(sample.vocabulary.text(ids.back()), "aaaaaaaa");
}

}  // namespace
}  // namespace sluice::token
