#include "token/bpe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/random_test_impl.h"
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

// Characters may be merged from the start, unless a merge crosses their boundaries or comes before
// those that make its parts: random merges of parts and wholes, in order and not, over valid
// and broken text.
TEST(Bpe, StartsFromWholeCharactersOnlyWhereThatChangesNothing) {
  constexpr int kVocabularies = 250, kTexts = 20;
  const Texts characters = {"你", "好", "ー", "é", "a"};
  Random random;
  for (int v = 0; v < kVocabularies; ++v) {
    Texts parts;
    for (const std::string& character : characters) {
      for (const char byte : character) parts.emplace_back(1, byte);
    }
    std::vector<TextPair> merges;
    // Every other time also characters that are not made yet: merges out of order.
    const auto pick = [&] {
      const bool is_character = v % 2 == 1 && random.Below(2) == 0;
      return is_character ? characters[random.Below(characters.size())]
                          : parts[std::max(random.Below(parts.size()), random.Below(parts.size()))];
    };
    std::vector<size_t> n_made(characters.size(), 1);  // bytes that are one token so far
    for (size_t n = 20 + random.Below(30); n > 0; --n) {
      const size_t i = random.Below(characters.size());
      const size_t n_bytes = n_made[i];
      std::string left = pick();
      std::string right = pick();
      if (random.Below(3) > 0 && n_bytes < characters[i].size()) {
        left = characters[i].substr(0, n_bytes);
        right = characters[i].substr(n_bytes, 1);
        ++n_made[i];
      }
      merges.emplace_back(left, right);
      parts.push_back(left + right);
    }
    for (size_t i = 0; i < characters.size(); ++i) {
      for (size_t n = n_made[i]; n < characters[i].size(); ++n) {
        merges.emplace_back(characters[i].substr(0, n), characters[i].substr(n, 1));
      }
    }
    std::set<TextPair> seen;
    std::erase_if(merges, [&](const TextPair& pair) { return !seen.insert(pair).second; });
    const Sample sample(merges);
    const SlowEncoder slow(sample.vocabulary);
    for (int t = 0; t < kTexts; ++t) {
      std::string text;
      for (size_t n = 1 + random.Below(12); n > 0; --n) {
        std::string character = characters[random.Below(characters.size())];
        if (random.Below(10) == 0) character.pop_back();                                // its head
        if (random.Below(10) == 0) character = character.substr(character.size() / 2);  // its tail
        text += character;
      }
      ASSERT_EQ(sample.Encode(text), slow.Encode(text)) << v << ": " << text;
    }
  }
}

// Pieces long enough to be merged rank by rank, also with merges before those that make their
// parts.
TEST(Bpe, LongPiecesAreMergedLikeShortOnes) {
  const std::vector<std::vector<TextPair>> vocabularies = {
      {{"a", "a"}, {"aa", "aa"}, {"a", "b"}, {"aaaa", "ab"}, {"b", "b"}, {"ab", "bb"}, {"b", "a"}},
      {{"aa", "aa"}, {"ab", "aa"}, {"a", "b"}, {"bb", "ab"}, {"a", "a"}, {"b", "b"}, {"bb", "a"}},
  };
  Random random;
  for (const std::vector<TextPair>& merges : vocabularies) {
    const Sample sample(merges);
    const SlowEncoder slow(sample.vocabulary);
    for (int t = 0; t < 10; ++t) {
      std::string text;
      Texts expected;
      while (text.size() < 4096 + random.Below(3000)) {  // "c" has no merge: parts stay apart
        std::string part;
        for (size_t n = random.Below(40); n > 0; --n) {
          part.append(1 + random.Below(7), "ab"[random.Below(2)]);
        }
        std::ranges::copy(slow.Encode(part), std::back_inserter(expected));
        expected.emplace_back("c");
        text += part + "c";
      }
      ASSERT_EQ(sample.Encode(text), expected) << text;
    }
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
