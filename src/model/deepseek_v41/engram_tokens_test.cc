#include "model/deepseek_v41/engram_tokens.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <span>
#include <sstream>
#include <string>

#include "base/sha256.h"
#include "env/posix/posix_env.h"
#include "model/deepseek_v41/config_samples_test_impl.h"

namespace sluice::model::deepseek_v41 {
namespace {

Config Classes(int32_t n_tokens, int32_t n_classes) {
  Config config;
  config.vocab_size = n_tokens;
  config.engram_compressed_vocab_size = n_classes;
  config.engram_layer_ids = {1};
  return config;
}

TEST(TokenText, IsNormalizedStepByStep) {
  const std::pair<std::string, std::string> cases[] = {
      {"Hello", "hello"},
      {" Hello", "hello"},
      {"\u00c9t\u00e9", "ete"},  // accents go
      {"\uff21\uff22", "ab"},    // wide letters are letters
      {"\ufb01n", "fin"},        // ligatures come apart
      {"a \t\r\n b", "a b"},     // a run of space is one
      {" ", " "},                // one space stays
      {"\n\n\t", " "},           // and so does a run
      {"\u00a0", " "},           // which NFKC makes of this one
      {"\u2028", ""},            // no ASCII space, so stripped
      {"\u0301", ""},            // a mark alone
      {"\u0903", ""},            // Mc
      {"\u20dd", ""},            // Me
      {"\u0130", "i"},           // dotted capital I: the dot is a mark
      {"", ""},
      {"\xff", ""},  // not UTF-8: callers take the raw string before
  };
  for (const auto& [text, normal] : cases) EXPECT_EQ(NormalizeTokenText(text), normal) << text;
}

constexpr std::string_view kTokenizer = R"({
  "model": {"vocab": {"a": 0, "A": 1, "Ġa": 2, "Ġ": 3, "ĠĠ": 4, "Ã": 5, "Ã©": 6, "e": 7, "Â": 8}},
  "added_tokens": [{"id": 9, "content": "<|end|>"}, {"id": 10, "content": "<｜END｜>"},
                   {"id": 11, "content": "A"}]})";

TEST(TokenClasses, AreHandedOutInOrderOfTokens) {
  const Config config = Classes(12, 6);
  Result<std::vector<int32_t>> classes = BuildTokenClasses(kTokenizer, config);
  ASSERT_TRUE(classes.has_value()) << classes.error().message();
  // a and A and the one with a space, two kinds of space, half a character, é and e, the other
  // half, and a control token in two widths of its bars.
  EXPECT_EQ(*classes, (std::vector<int32_t>{0, 0, 0, 1, 1, 2, 3, 3, 4, 5, 5, 0}));
}

TEST(TokenClasses, AWrongCountIsRefused) {
  const Result<std::vector<int32_t>> classes = BuildTokenClasses(kTokenizer, Classes(12, 7));
  ASSERT_FALSE(classes.has_value());
  EXPECT_EQ(classes.error().message(),
            "the tokens have 6 classes, and config.json says engram_compressed_vocab_size 7: every "
            "Engram row would be another one");
}

TEST(TokenClasses, AVocabularyHasEveryIdAndNoOther) {
  const auto refusal = [](std::string_view json, int32_t n_tokens) {
    return std::string(BuildTokenClasses(json, Classes(n_tokens, 1)).error().message());
  };
  EXPECT_EQ(refusal(kTokenizer, 13), "has no token with id 12, and vocab_size is 13");
  EXPECT_EQ(refusal(kTokenizer, 8), "model.vocab: \"\u00c2\" has id 8; ids go from 0 to 7");
  EXPECT_EQ(refusal(kTokenizer, 11),
            "added_tokens: {\"id\":11,\"content\":\"A\"} must have a content and an "
            "id from 0 to 10");
  EXPECT_EQ(refusal("{}", 2), "has no token with id 0, and vocab_size is 2");
  EXPECT_EQ(refusal("[]", 2), "has no token with id 0, and vocab_size is 2");
  EXPECT_NE(refusal("{", 2).find("invalid JSON"), std::string::npos);
}

TEST(TokenClasses, TheSideFileHasAClassForEachToken) {
  EXPECT_EQ(*ParseTokenClasses("[0, 1, 0]", Classes(3, 2)), (std::vector<int32_t>{0, 1, 0}));
  const auto refusal = [](std::string_view json) {
    return std::string(ParseTokenClasses(json, Classes(3, 2)).error().message());
  };
  EXPECT_EQ(refusal("[0, 1]"), "must be a list with a class for each of 3 tokens");
  EXPECT_EQ(refusal("{}"), "must be a list with a class for each of 3 tokens");
  EXPECT_EQ(refusal("[0, 1, 2]"), "token 2 has class 2; classes go from 0 to 1");
  EXPECT_EQ(refusal("[0, -1, 0]"), "token 1 has class -1; classes go from 0 to 1");
  EXPECT_EQ(refusal("[0, 1.0, 0]"), "token 1 has class 1.0; classes go from 0 to 1");
  EXPECT_NE(refusal("[0, 0, 0]").find("have 1 classes"), std::string::npos);
}

class TokenMapFolder : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "sluice_tokens_XXXXXX";
    ASSERT_NE(mkdtemp(folder_.data()), nullptr);
  }
  void TearDown() override { ASSERT_EQ(std::system(("rm -r " + folder_).c_str()), 0); }
  void Write(const std::string& name, std::string_view text) {
    std::ofstream(folder_ + "/" + name, std::ios::binary) << text;
  }
  Result<std::vector<int32_t>> Load(const Config& config) {
    return LoadTokenClasses(posix_.env().fs, folder_, config);
  }
  PosixEnv posix_;
  std::string folder_;
};

TEST_F(TokenMapFolder, TheSideFileGoesBeforeTheTokenizer) {
  const Config config = Classes(12, 6);
  EXPECT_EQ(Load(config).error().message(),
            "Engram needs engram_token_map.json or tokenizer.json: " + folder_ +
                "/tokenizer.json: no such file");
  Write("tokenizer.json", kTokenizer);
  EXPECT_EQ(Load(config)->at(10), 5);
  Write("engram_token_map.json", "[0,1,2,3,4,5,0,0,0,0,0,0]");
  EXPECT_EQ(Load(config)->at(10), 0);
  Write("engram_token_map.json", "[0]");
  EXPECT_EQ(Load(config).error().message(),
            folder_ + "/engram_token_map.json: must be a list with a class for each of 12 tokens");
}

TEST_F(TokenMapFolder, AModelWithoutEngramNeedsNone) {
  Config config = Classes(12, 6);
  config.engram_layer_ids.clear();
  EXPECT_TRUE(Load(config)->empty());
}

std::string Hex(std::span<const std::byte> bytes) {
  std::string hex;
  for (std::byte byte : bytes) hex += fmt::format("{:02x}", static_cast<int>(byte));
  return hex;
}

// The released tokenizer.json is not ours to ship (6 MB, made by the recipe in shared/golden); its
// path comes from the environment of whoever has it.
TEST(TokenClasses, TheReleasedTokenizerHasTheKnownMap) {
  // tidy: allow, a test has no options, and the file is not in the repository
  const char* path = std::getenv("SLUICE_TEST_TOKENIZER");
  if (path == nullptr) GTEST_SKIP() << "SLUICE_TEST_TOKENIZER names no tokenizer.json";
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  const Result<Config> config = Config::Parse(ReleasedConfig());
  const Result<std::vector<int32_t>> classes = BuildTokenClasses(text.str(), *config);
  ASSERT_TRUE(classes.has_value()) << classes.error().message();
  std::string bytes;
  for (int32_t id : *classes) {
    for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(id >> shift);
  }
  // Spec model.md §3.6.
  EXPECT_EQ(Hex(Sha256(std::as_bytes(std::span(bytes)))),
            "c60a86322ec17b4142bfef3c57a8d81fb428550cdf487f88a4320cb59fe46481");
  EXPECT_EQ((*classes)[128799], 98611);
  EXPECT_EQ((*classes)[129264], 99076);
}

}  // namespace
}  // namespace sluice::model::deepseek_v41
