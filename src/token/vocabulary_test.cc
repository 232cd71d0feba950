#include "token/vocabulary.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "token/sample_tokenizer_test_impl.h"

namespace sluice::token {
namespace {

std::string Sample() { return SampleTokenizer({{"a", "b"}, {"ab", " "}}, {"<｜x｜>", "<think>"}); }

TEST(Vocabulary, HoldsTextsMergesAndAddedTokens) {
  const Result<Vocabulary> vocabulary = Vocabulary::Parse(Sample());
  ASSERT_TRUE(vocabulary.has_value()) << vocabulary.error().message();
  EXPECT_EQ(vocabulary->size(), 256 + 2 + 2);
  EXPECT_EQ(vocabulary->text(TokenId(0xE9)), "\xE9");
  EXPECT_EQ(vocabulary->text(TokenId(257)), "ab ");
  EXPECT_EQ(vocabulary->text(TokenId(258)), "<｜x｜>");
  EXPECT_FALSE(vocabulary->is_added(TokenId(257)));
  EXPECT_TRUE(vocabulary->is_added(TokenId(258)));
  ASSERT_EQ(vocabulary->merges().size(), 2u);
  EXPECT_EQ(vocabulary->merges()[1].left, TokenId(256));
  EXPECT_EQ(vocabulary->merges()[1].right, TokenId(' '));
  EXPECT_EQ(vocabulary->merges()[1].result, TokenId(257));
  EXPECT_EQ(vocabulary->byte_tokens()[10], TokenId(10));
}

TEST(Vocabulary, ControlTokensAreFoundByName) {
  const Result<Vocabulary> vocabulary = Vocabulary::Parse(Sample());
  ASSERT_TRUE(vocabulary.has_value());
  EXPECT_EQ(vocabulary->FindControl("<think>"), TokenId(259));
  EXPECT_EQ(vocabulary->FindControl("<｜x｜>"), TokenId(258));
  EXPECT_EQ(vocabulary->FindControl("ab"), std::nullopt);
  EXPECT_EQ(vocabulary->FindControl("<think"), std::nullopt);
  EXPECT_EQ(vocabulary->texts().Find("ab"), 256);
  EXPECT_EQ(vocabulary->texts().Find("<think>"), -1);
}

// Newer writers of the format list the two sides.
TEST(Vocabulary, MergesMayBeLists) {
  std::string text = Sample();
  text.replace(text.find("\"ab Ġ\""), 6 + 1, R"(["ab","Ġ"])");
  const Result<Vocabulary> vocabulary = Vocabulary::Parse(text);
  ASSERT_TRUE(vocabulary.has_value()) << vocabulary.error().message();
  EXPECT_EQ(vocabulary->merges()[1].result, TokenId(257));
}

// The message for the sample with one part replaced.
std::string Refusal(std::string_view from, std::string_view to) {
  std::string text = Sample();
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  const Result<Vocabulary> vocabulary = Vocabulary::Parse(text);
  EXPECT_FALSE(vocabulary.has_value()) << from << " to " << to;
  return vocabulary ? "" : std::string(vocabulary.error().message());
}

TEST(Vocabulary, WhatWouldGiveOtherIdsIsRefused) {
  EXPECT_EQ(Refusal("\"BPE\"", "\"Unigram\""), "model.type is \"Unigram\"; only BPE is built in");
  EXPECT_EQ(Refusal("\"BPE\"", "\"BPE\",\"dropout\":0.5"),
            "model.dropout is 0.5; only null is built in");
  EXPECT_EQ(Refusal("\"BPE\"", "\"BPE\",\"ignore_merges\":true"),
            "model.ignore_merges is true; only false is built in");
  EXPECT_EQ(Refusal("\"decoder\":{\"type\":\"ByteLevel\"}", "\"decoder\":{\"type\":\"Fuse\"}"),
            "decoder.type is \"Fuse\"; only ByteLevel is built in");
  EXPECT_EQ(Refusal("\"decoder\"", "\"normalizer\":{\"type\":\"NFC\"},\"decoder\""),
            "normalizer has the type \"NFC\"; only one that does nothing is built in");
  EXPECT_EQ(
      Refusal("\"decoder\"", "\"post_processor\":{\"type\":\"TemplateProcessing\"},\"decoder\""),
      "post_processor.type is \"TemplateProcessing\"; only ByteLevel is built in");
  EXPECT_EQ(Refusal("\"special\":true", "\"lstrip\":true"),
            "added_tokens: lstrip of \"<｜x｜>\" is true; only false is built in");
  EXPECT_NE(Refusal("{1,3}", "{1,4}").find("pre_tokenizer: part 0"), std::string::npos);
}

TEST(Vocabulary, BrokenTokensAreRefused) {
  const std::string rule = "; a token has 1 to 1024 bytes, and ids go from 0 without a gap";
  EXPECT_EQ(Refusal("\"ab\":256", "\"ab\":300"), "model.vocab: \"ab\" has id 300" + rule);
  EXPECT_EQ(Refusal("\"ab\":256", "\"ab\":-1"), "model.vocab: \"ab\" has id -1" + rule);
  EXPECT_EQ(Refusal("\"ab\":256", "\"ab\":\"x\""), "model.vocab: \"ab\" has id \"x\"" + rule);
  EXPECT_EQ(Refusal("\"ab\":256", "\"\":256"), "model.vocab: \"\" has id 256" + rule);
  EXPECT_EQ(Refusal("\"ab\":256", "\"ab\":257"),
            "model.vocab: \"ab\" and \"abĠ\" have one id, 257");
  EXPECT_EQ(Refusal("\"ab\":256,", ""), "added_tokens: \"<think>\" has id 259" + rule);
  EXPECT_EQ(Refusal("\"ab\":256", "\"a b\":256"),
            "model.vocab: \"a b\" has a character that stands for no byte, and is no added token");
  EXPECT_EQ(Refusal("\"ab\":256", "\"a中\":256"),
            "model.vocab: \"a中\" has a character that stands for no byte, and is no added token");
  EXPECT_EQ(Refusal("\"A\":65", "\"xyz\":65"), "model.vocab: has no token for the byte 65");
  EXPECT_EQ(Refusal("\"vocab\"", "\"words\""),
            "model.vocab: with added_tokens, 1 to 1048576 tokens are wanted");
  EXPECT_EQ(Refusal("\"ab\":256", "\"" + std::string(1025, 'q') + "\":256"),
            "model.vocab: \"" + std::string(60, 'q') + "...\" has id 256" + rule);
}

TEST(Vocabulary, BrokenMergesAreRefused) {
  const std::string rule = ": both and what they make must be tokens of model.vocab";
  EXPECT_EQ(Refusal("\"a b\"", "\"a c\""), "model.merges: merge 0, of \"a\" and \"c\"" + rule);
  EXPECT_EQ(Refusal("\"a b\"", "\"ab\""), "model.merges: merge 0 is \"ab\", not two tokens");
  EXPECT_EQ(Refusal("\"a b\"", "\"a b \""), "model.merges: merge 0 is \"a b \", not two tokens");
  EXPECT_EQ(Refusal("\"a b\"", "7"), "model.merges: merge 0 is 7, not two tokens");
  EXPECT_EQ(Refusal("\"a b\"", "[\"a\"]"), "model.merges: merge 0 is an array, not two tokens");
  EXPECT_EQ(Refusal("\"a b\"", "\"a b\",\"a b\""),
            "model.merges: tokens 97 and 98 are merged twice");
  EXPECT_EQ(Refusal("\"merges\"", "\"merged\""),
            "model.merges: a list of at most 1048576 is wanted");
}

TEST(Vocabulary, BrokenAddedTokensAreRefused) {
  EXPECT_EQ(Refusal("\"<think>\"", "\"<｜x｜>\""),
            "added_tokens: \"<｜x｜>\" is spelled by tokens 258 and 259");
  EXPECT_EQ(Refusal("\"<think>\"", "\"ab\""),
            "added_tokens: \"ab\" is spelled by tokens 256 and 259");
  EXPECT_EQ(Refusal("\"id\":259", "\"id\":258"),
            "added_tokens: \"<｜x｜>\" and \"<think>\" have one id, 258");
  EXPECT_EQ(Refusal("\"id\":259,\"content\":\"<think>\"", "\"id\":258,\"content\":\"<｜x｜>\""),
            "added_tokens: \"<｜x｜>\" and \"<｜x｜>\" have one id, 258");
  EXPECT_EQ(Refusal("\"id\":259", "\"id\":97"),
            "added_tokens: \"a\" and \"<think>\" have one id, 97");
}

// The lists of a GGUF that has the bytes, "ab", a control token and an unused one.
struct SampleLists {
  SampleLists() {
    for (int byte = 0; byte < 256; ++byte) {
      const char text = static_cast<char>(byte);
      owned.push_back(ByteLevelText({&text, 1}));
    }
    owned.insert(owned.end(), {"ab", "<|im_end|>", "[unused]"});
    types.assign(owned.size(), 1);
    types[257] = 3;
    types[258] = 5;
  }
  Result<Vocabulary> Read(std::string_view pre = "smollm") const {
    const std::vector<std::string_view> tokens(owned.begin(), owned.end());
    return Vocabulary::FromLists(
        {.pre = pre, .tokens = tokens, .token_types = types, .merges = merges});
  }
  std::string Refusal() const {
    const Result<Vocabulary> vocabulary = Read();
    return vocabulary ? "" : std::string(vocabulary.error().message());
  }

  std::vector<std::string> owned;
  std::vector<int64_t> types;
  std::vector<std::string_view> merges = {"a b"};
};

TEST(VocabularyOfLists, HoldsWhatTheListsSay) {
  const Result<Vocabulary> vocabulary = SampleLists().Read();
  ASSERT_TRUE(vocabulary.has_value()) << vocabulary.error().message();
  EXPECT_EQ(vocabulary->size(), 259);
  EXPECT_EQ(vocabulary->rules(), TextRules::kSmollm);
  EXPECT_EQ(vocabulary->FindControl("<|im_end|>"), TokenId(257));
  EXPECT_TRUE(vocabulary->is_added(TokenId(258)));
  ASSERT_EQ(vocabulary->merges().size(), 1u);
  EXPECT_EQ(vocabulary->merges()[0].result, TokenId(256));
  EXPECT_FALSE(vocabulary->lacks_bytes());
}

TEST(VocabularyOfLists, BytesMayBeMissingForSmollmOnly) {
  SampleLists lists;
  lists.owned[4] = "xyz";
  ASSERT_TRUE(lists.Read().has_value());
  EXPECT_TRUE(lists.Read()->lacks_bytes());
  EXPECT_EQ(lists.Read()->byte_tokens()[4], TokenId(-1));
  EXPECT_EQ(lists.Read("qwen2").error().message(),
            "tokenizer.ggml.tokens: has no token for the byte 4");
}

TEST(VocabularyOfLists, BrokenListsAreRefused) {
  SampleLists lists;
  lists.types.pop_back();
  EXPECT_EQ(lists.Refusal(),
            "tokenizer.ggml.tokens has 259 texts and tokenizer.ggml.token_type 258 numbers; 1 to "
            "1048576 are wanted, as many of both");
  lists = SampleLists();
  lists.owned[7] = "";
  EXPECT_EQ(lists.Refusal(), "tokenizer.ggml.tokens: token 7 is \"\"; a token has 1 to 1024 bytes");
  lists = SampleLists();
  lists.owned[256] = "a";
  EXPECT_EQ(lists.Refusal(), "tokenizer.ggml.tokens: token 256 is \"a\", as another is");
  lists = SampleLists();
  lists.merges = {"a b c"};
  EXPECT_EQ(lists.Refusal(), "tokenizer.ggml.merges: merge 0 is \"a b c\", not two tokens");
  lists.merges = {"a a"};
  EXPECT_EQ(lists.Refusal(),
            "tokenizer.ggml.merges: merge 0, of \"a\" and \"a\": both and what they make must be "
            "tokens of tokenizer.ggml.tokens");
  EXPECT_EQ(lists.Read("gpt-2").error().code(), ErrorCode::kUnsupported);
}

TEST(Vocabulary, TextThatIsNoJsonIsRefused) {
  EXPECT_FALSE(Vocabulary::Parse("").has_value());
  EXPECT_FALSE(Vocabulary::Parse("[]").has_value());
  EXPECT_FALSE(Vocabulary::Parse("null").has_value());
}

}  // namespace
}  // namespace sluice::token
