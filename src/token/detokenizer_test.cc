#include "token/detokenizer.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/rng.h"
#include "base/utf8.h"
#include "token/sample_tokenizer_test_impl.h"

namespace sluice::token {
namespace {

using Texts = std::vector<std::string>;

class DetokenizerTest : public testing::Test {
 protected:
  // One token a byte.
  Texts Push(std::string_view bytes) {
    std::vector<TokenId> ids;
    for (const char byte : bytes) ids.emplace_back(static_cast<unsigned char>(byte));
    Texts texts;
    detokenizer_.Push(ids, texts);
    return texts;
  }

  const Vocabulary vocabulary_ = std::move(*Vocabulary::Parse(SampleTokenizer({}, {"<x>"})));
  Detokenizer detokenizer_{vocabulary_};
};

TEST_F(DetokenizerTest, BytesInsideACharacterWait) {
  EXPECT_EQ(Push("a"), Texts{"a"});
  EXPECT_EQ(Push("\xF0\x9F"), Texts{});
  EXPECT_EQ(Push("\x99"), Texts{});
  EXPECT_EQ(Push("\x82!"), Texts{"🙂!"});
  EXPECT_EQ(detokenizer_.Finish(), "");
}

TEST_F(DetokenizerTest, BrokenBytesBecomeAReplacementWhenGoodOnesFollow) {
  EXPECT_EQ(Push("\x82"), Texts{});
  EXPECT_EQ(Push("\xC3"), Texts{});
  EXPECT_EQ(Push("b"), Texts{"\uFFFD\uFFFDb"});
}

TEST_F(DetokenizerTest, AnAddedTokenIsATextOfItsOwn) {
  Texts texts = Push("ok\xC3");
  const TokenId added[] = {TokenId(256), TokenId(256)};
  detokenizer_.Push(added, texts);
  EXPECT_EQ(texts, (Texts{"ok\uFFFD", "<x>", "<x>"}));
  EXPECT_EQ(Push("\xA9z"), Texts{"\uFFFDz"});
}

TEST_F(DetokenizerTest, TheEndDropsWhatStayedIncompleteAndNothingElse) {
  EXPECT_EQ(Push("whole\xE4\xBD"), Texts{});
  EXPECT_EQ(detokenizer_.Finish(), "whole");
  EXPECT_EQ(Push("a"), Texts{"a"});
}

TEST_F(DetokenizerTest, EndlessBrokenBytesDoNotWaitForEver) {
  size_t n_out = 0;
  for (int i = 0; i < 2000; ++i) {
    for (const std::string& text : Push("\xBF")) n_out += text.size() / 3;
  }
  EXPECT_EQ(n_out, 2000u - 256u);
  EXPECT_EQ(detokenizer_.Finish(), "");
}

TEST_F(DetokenizerTest, JoinedTextsDoNotDependOnTheCutsAndAreUtf8) {
  constexpr uint64_t kSeed = 11;
  for (uint64_t round = 0; round < 500; ++round) {
    uint64_t position = 0;
    const auto draw = [&](uint64_t n) {
      return RandomBits({.seed = kSeed, .position = position++, .stream = round}) % n;
    };
    std::vector<TokenId> ids;
    const uint64_t n_ids = round % 10 == 0 ? 900 : draw(40);
    constexpr std::string_view kBytes = "a\xF0\x9F\x99\x82\xE4\xBD\xA0\xEF\xBF\xBD";
    for (uint64_t i = 0; i < n_ids; ++i) {
      // Long rounds are of bytes that never make a character.
      const auto byte = static_cast<unsigned char>(kBytes[draw(kBytes.size())]);
      const bool is_added = draw(30) == 0;
      ids.emplace_back(n_ids == 900 ? 0xBF : is_added ? 256 : byte);
    }
    std::string whole, cut;
    for (const bool is_cut : {false, true}) {
      Detokenizer detokenizer(vocabulary_);
      Texts texts;
      for (size_t at = 0; at < ids.size();) {
        const size_t n = is_cut ? std::min<size_t>(ids.size() - at, draw(5)) : ids.size();
        detokenizer.Push(std::span(ids).subspan(at, n), texts);
        at += n;
      }
      texts.push_back(detokenizer.Finish());
      for (const std::string& text : texts) {
        ASSERT_EQ(ValidUtf8Prefix(text), text.size());
        (is_cut ? cut : whole) += text;
      }
    }
    ASSERT_EQ(cut, whole) << "seed " << kSeed << " round " << round;
  }
}

}  // namespace
}  // namespace sluice::token
