// Cases made by the published codec package: those of a cut vocabulary in tests/golden/tokenizer,
// and the full set where it lies beside the repository and SLUICE_TEST_TOKENIZER names the released
// tokenizer.json.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/sha256.h"
#include "token/bpe.h"
#include "token/detokenizer.h"
#include "token/nfc.h"
#include "token/vocabulary.h"

namespace sluice::token {
namespace {

std::string ReadFile(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

std::vector<TokenId> IdsOf(JsonValue list) {
  std::vector<TokenId> ids;
  for (const JsonValue id : list.elements()) ids.emplace_back(static_cast<int32_t>(id.AsInt64()));
  return ids;
}

std::vector<int32_t> Values(const std::vector<TokenId>& ids) {
  std::vector<int32_t> values;
  for (const TokenId id : ids) values.push_back(id.value);
  return values;
}

void AppendCharacter(std::string& text, uint32_t point) {
  const int n_more = point < 0x80 ? 0 : point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
  constexpr uint32_t kLeads[] = {0, 0xC0, 0xE0, 0xF0};
  text.push_back(static_cast<char>(kLeads[n_more] | point >> (6 * n_more)));
  for (int i = n_more - 1; i >= 0; --i) {
    text.push_back(static_cast<char>(0x80 | (point >> (6 * i) & 0x3F)));
  }
}

// One vocabulary and the cases of a file.
class Golden {
 public:
  explicit Golden(const std::string& tokenizer_path)
      : parsed_(Vocabulary::Parse(ReadFile(tokenizer_path))) {}

  bool has_vocabulary() const { return parsed_.has_value(); }
  const Vocabulary& vocabulary() const { return *parsed_; }

  // Cases by kind.
  std::map<std::string, int> Run(const std::string& path) {
    const Bpe bpe(*parsed_);
    std::map<std::string, int> n_run;
    std::stringstream lines(ReadFile(path));
    for (std::string line; std::getline(lines, line);) {
      const Result<Json> json = Json::Parse(line);
      if (!json) {
        ADD_FAILURE() << path << ": " << json.error().message();
        break;
      }
      const JsonValue record = json->root();
      const std::string kind(record.Find("kind").AsString());
      SCOPED_TRACE(fmt::format("{} {}", kind, record.Find("name").AsString()));
      if (kind == "encode") RunEncode(bpe, record);
      if (kind == "decode") RunDecode(record);
      if (kind == "sweep") RunSweep(bpe, record);
      ++n_run[kind];
    }
    return n_run;
  }

 private:
  void RunEncode(const Bpe& bpe, JsonValue record) const {
    const std::string_view text = record.Find("text").AsString();
    const JsonValue plain = record.Find("ids"), added = record.Find("ids_added");
    std::vector<TokenId> ids, ids_added;
    bpe.Encode(text, ids);
    EXPECT_EQ(Values(ids), Values(IdsOf(plain)));
    bpe.EncodeWithAdded(text, ids_added);
    EXPECT_EQ(Values(ids_added), Values(IdsOf(added ? added : plain)));
    std::string joined;
    for (const TokenId id : ids) joined += vocabulary().text(id);
    std::string buffer;
    const bool is_composed = vocabulary().rules() == TextRules::kQwen2;
    if (!vocabulary().lacks_bytes()) {
      EXPECT_EQ(joined, is_composed ? ToNfc(text, buffer) : text);
    }
  }

  void RunDecode(JsonValue record) const {
    const std::vector<TokenId> ids = IdsOf(record.Find("ids"));
    std::vector<std::string> wanted;
    for (const JsonValue piece : record.Find("pieces").elements()) {
      wanted.emplace_back(piece.AsString());
    }
    std::vector<size_t> sizes;
    for (const JsonValue size : record.Find("chunking").elements()) {
      sizes.push_back(static_cast<size_t>(size.AsInt64()));
    }
    Detokenizer stream(vocabulary());
    std::vector<std::string> pieces;
    for (size_t at = 0, turn = 0; at < ids.size(); ++turn) {
      const size_t n = std::min(sizes[turn % sizes.size()], ids.size() - at);
      stream.Push(std::span(ids).subspan(at, n), pieces);
      at += n;
    }
    EXPECT_EQ(pieces, wanted);
    EXPECT_EQ(stream.Finish(), "");
    // All at once the reference forgets everything that waits, so that its text is empty for some
    // cuts. Here the end brings out what the pieces have.
    Detokenizer whole(vocabulary());
    std::vector<std::string> texts;
    whole.Push(ids, texts);
    EXPECT_EQ(Join(texts), record.Find("text").AsString());
    texts.push_back(whole.Finish());
    EXPECT_EQ(Join(texts), Join(wanted));
  }

  // The digest is over the ids as little-endian uint32.
  void RunSweep(const Bpe& bpe, JsonValue record) const {
    std::string text;
    const auto last = static_cast<uint32_t>(record.Find("last").AsInt64());
    for (auto point = static_cast<uint32_t>(record.Find("first").AsInt64()); point <= last;
         ++point) {
      if (point >= 0xD800 && point < 0xE000) continue;
      text += " ";
      AppendCharacter(text, point);
      text += "x\n";
    }
    std::vector<TokenId> ids;
    bpe.Encode(text, ids);
    EXPECT_EQ(static_cast<int64_t>(ids.size()), record.Find("n_tokens").AsInt64());
    const std::vector<int32_t> values = Values(ids);
    std::string digest;
    for (const std::byte byte : Sha256(std::as_bytes(std::span(values)))) {
      digest += fmt::format("{:02x}", static_cast<int>(byte));
    }
    EXPECT_EQ(digest, record.Find("sha256").AsString());
  }

  static std::string Join(const std::vector<std::string>& texts) {
    std::string joined;
    for (const std::string& text : texts) joined += text;
    return joined;
  }

  Result<Vocabulary> parsed_;
};

using Counts = std::map<std::string, int>;

TEST(TokenizerGolden, CutVocabularyGivesTheIdsOfTheReference) {
  const std::string folder = SLUICE_SOURCE_DIR "/tests/golden/tokenizer/";
  Golden golden(folder + "tokenizer.json");
  ASSERT_TRUE(golden.has_vocabulary());
  EXPECT_EQ(golden.vocabulary().size(), 4096);
  EXPECT_EQ(golden.vocabulary().FindControl("<｜System｜>"), TokenId(4077));
  EXPECT_EQ(golden.Run(folder + "cases.jsonl"),
            (Counts{{"encode", 434}, {"decode", 170}, {"sweep", 54}}));
}

// Made by the package `tokenizers` (tools/small_tokenizer_cases.py).
TEST(TokenizerGolden, CutSmollm2GivesTheIdsOfTheReference) {
  const std::string folder = SLUICE_SOURCE_DIR "/tests/golden/tokenizer/";
  Golden golden(folder + "smollm2.json");
  ASSERT_TRUE(golden.has_vocabulary());
  EXPECT_EQ(golden.vocabulary().rules(), TextRules::kSmollm);
  EXPECT_TRUE(golden.vocabulary().lacks_bytes());
  EXPECT_EQ(golden.vocabulary().FindControl("<|im_end|>"), TokenId(2));
  EXPECT_EQ(golden.Run(folder + "smollm2_cases.jsonl"), (Counts{{"encode", 82}, {"sweep", 53}}));
}

TEST(TokenizerGolden, RulesOfQwen2GiveTheIdsOfTheReference) {
  const std::string folder = SLUICE_SOURCE_DIR "/tests/golden/tokenizer/";
  Golden golden(folder + "qwen2.json");
  ASSERT_TRUE(golden.has_vocabulary());
  EXPECT_EQ(golden.vocabulary().rules(), TextRules::kQwen2);
  EXPECT_EQ(golden.Run(folder + "qwen2_cases.jsonl"), (Counts{{"encode", 82}, {"sweep", 53}}));
}

class ReleasedGolden : public testing::Test {
 protected:
  void SetUp() override {
    const char* path = std::getenv("SLUICE_TEST_TOKENIZER");
    if (path == nullptr) GTEST_SKIP() << "SLUICE_TEST_TOKENIZER names no tokenizer.json";
    golden_ = std::make_unique<Golden>(path);
    ASSERT_TRUE(golden_->has_vocabulary());
  }
  std::unique_ptr<Golden> golden_;
};

TEST_F(ReleasedGolden, HasTheKnownTokens) {
  const Vocabulary& vocabulary = golden_->vocabulary();
  EXPECT_EQ(vocabulary.size(), 129'280);
  EXPECT_EQ(vocabulary.merges().size(), 127'741u);
  EXPECT_EQ(vocabulary.added().size(), 1'283u);
  EXPECT_EQ(vocabulary.FindControl("<｜begin▁of▁sentence｜>"), TokenId(0));
  EXPECT_EQ(vocabulary.FindControl("</think>"), TokenId(128'822));
  EXPECT_EQ(vocabulary.FindControl("<｜image｜>"), std::nullopt);
  const Bpe bpe(vocabulary);
  std::vector<TokenId> ids;
  bpe.EncodeWithAdded("\n\n<｜DSML｜ calls>\n", ids);
  EXPECT_EQ(Values(ids), (std::vector<int32_t>{271, 30, 128'825, 10'699, 1'018}));
}

TEST_F(ReleasedGolden, GivesTheIdsOfTheReference) {
  const std::string folder = SLUICE_SOURCE_DIR "/../shared/golden/recipe/";
  if (!std::ifstream(folder + "tokenizer.jsonl"))
    GTEST_SKIP() << "no full set beside the repository";
  EXPECT_EQ(golden_->Run(folder + "tokenizer.jsonl"), (Counts{{"encode", 1'409}, {"decode", 219}}));
  EXPECT_EQ(golden_->Run(folder + "unicode_sweep.jsonl"), (Counts{{"sweep", 817}}));
}

}  // namespace
}  // namespace sluice::token
