#include "model/deepseek_v41/preset_tokens.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "base/json.h"
#include "base/json_writer.h"
#include "model/deepseek_v41/engram_tokens.h"

namespace sluice::model::deepseek_v41 {
namespace {

constexpr std::string_view kControl[] = {"<｜System｜>",
                                         "<｜fim▁hole｜>",
                                         "<｜fim▁begin｜>",
                                         "<｜fim▁end｜>",
                                         "<｜User｜>",
                                         "<｜Assistant｜>",
                                         "<think>",
                                         "</think>",
                                         "｜DSML｜",
                                         "<｜latest_reminder｜>",
                                         "<｜deepseek_image｜>",
                                         "<｜/polygon｜>",
                                         "<｜polygon｜>",
                                         "<｜/point｜>",
                                         "<｜point｜>",
                                         "<｜/box｜>",
                                         "<｜box｜>",
                                         "<｜/ref｜>",
                                         "<｜ref｜>"};

// A file like the released one with four merges: 263 tokens, and 30 added ones behind them, the
// named ones last and in reverse.
std::string SmallRelease() {
  std::string text;
  JsonWriter w(text);
  w.Object();
  w.Key("version").String("1.0");
  w.Key("added_tokens").Array();
  for (int id = 0; id < 3; ++id) {
    w.Object().Key("id").Int(id).Key("content").String(fmt::format("<{}>", id));
    w.Key("special").Bool(true).EndObject();
  }
  for (int i = 0; i < 30; ++i) {
    w.Object().Key("id").Int(263 + i).Key("content");
    w.String(i < 11 ? fmt::format("<holder {}>", i) : std::string(kControl[29 - i]));
    w.Key("special").Bool(i % 2 == 0).EndObject();
  }
  w.EndArray();
  w.Key("model").Object().Key("type").String("BPE").Key("vocab").Object();
  for (int id = 0; id < 259; ++id) w.Key(fmt::format("<{}>", id)).Int(id);
  w.Key("<10><11>").Int(259).Key("<12><13>").Int(260);
  w.Key("<10><11><12><13>").Int(261).Key("<14><15>").Int(262).EndObject();
  w.Key("merges").Array();
  for (const char* merge : {"<10> <11>", "<12> <13>", "<10><11> <12><13>", "<14> <15>"}) {
    w.String(merge);
  }
  w.EndArray().EndObject();
  w.Key("decoder").Null().EndObject();
  return text;
}

JsonValue Added(const Json& json, int32_t index) {
  int32_t i = 0;
  for (const JsonValue token : json.root().Find("added_tokens").elements()) {
    if (i++ == index) return token;
  }
  return JsonValue();
}

TEST(CutTokenizer, KeepsTheFirstMergesAndTheNamedTokens) {
  const Result<std::string> cut = CutTokenizer(SmallRelease(), 280);
  ASSERT_TRUE(cut.has_value()) << cut.error().message();
  const Result<Json> json = Json::Parse(*cut);
  ASSERT_TRUE(json.has_value());
  const JsonValue model = json->root().Find("model");
  EXPECT_EQ(model.Find("type").AsString(), "BPE");
  EXPECT_EQ(model.Find("vocab").size(), 261);
  EXPECT_EQ(model.Find("vocab").Find("<12><13>").AsInt64(), 260);
  EXPECT_EQ(model.Find("merges").ToText(), R"(["<10> <11>","<12> <13>"])");
  EXPECT_TRUE(json->root().Find("decoder").is_null());
  EXPECT_EQ(json->root().Find("added_tokens").size(), 3 + 19);
  EXPECT_EQ(Added(*json, 2).ToText(), R"({"id":2,"content":"<2>","special":true})");
  for (int32_t i = 0; i < 19; ++i) {
    const JsonValue token = Added(*json, 3 + i);
    EXPECT_EQ(token.Find("id").AsInt64(), 261 + i);
    EXPECT_EQ(token.Find("content").AsString(), kControl[i]);
    EXPECT_EQ(token.Find("special").AsBool(), (29 - i) % 2 == 0);
  }
}

TEST(CutTokenizer, RefusesAFileThatCannotBeCut) {
  const auto refusal = [](std::string text, std::string_view from, std::string_view to, int32_t n) {
    text.replace(text.find(from), from.size(), to);
    return std::string(CutTokenizer(text, n).error().message());
  };
  const std::string whole = SmallRelease();
  EXPECT_EQ(refusal(whole, "<10> <11>", "<11> <10>", 280),
            "model.merges: merge 0 does not make token 259");
  EXPECT_EQ(refusal(whole, "\"<7>\":7", "\"<7>\":700", 280),
            "model.vocab: has 260 ids below 261, not all of them");
  EXPECT_EQ(refusal(whole, "<think>", "<thunk>", 280), "added_tokens: has no <think>");
  EXPECT_EQ(refusal(whole, "null", "0", 300),
            "model.vocab: has 263 ids below 281, not all of them");
  EXPECT_NE(refusal(whole, "{", "", 280).find("invalid JSON"), std::string::npos);
}

TEST(TokenFiles, APresetWithoutATokenizerHasOnlyItsMap) {
  const Preset& tiny = *FindPreset("tiny-a");
  const Result<std::vector<SideFile>> files = TokenFiles(tiny, "");
  ASSERT_TRUE(files.has_value());
  ASSERT_EQ(files->size(), 1u);
  EXPECT_EQ(files->front().name, "engram_token_map.json");
  const Result<std::vector<int32_t>> classes = ParseTokenClasses(files->front().text, tiny.config);
  ASSERT_TRUE(classes.has_value()) << classes.error().message();
  EXPECT_EQ(classes->at(399), 399);
  EXPECT_EQ(classes->at(400), 3);
  EXPECT_EQ(classes->at(511), 114);
}

TEST(TokenFiles, AnyOtherTokenizerIsRefused) {
  for (const std::string_view name : {"mini-b", "slice-c"}) {
    const Status status = TokenFiles(*FindPreset(name), "{}").status();
    EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument);
    EXPECT_EQ(status.message(),
              "is not tokenizer.json of deepseek-ai/DeepSeek-V4.1-Flash on Hugging Face: its "
              "SHA-256 is 44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a, that "
              "of the released file "
              "c90dfa01249db1be4245780a052ede752e1361c612ac6d08e2bdada7d599476b");
  }
}

// The released file is not ours to ship; its path comes from the environment of whoever has it.
class ReleasedTokenizer : public testing::Test {
 protected:
  void SetUp() override {
    const char* path = std::getenv("SLUICE_TEST_TOKENIZER");
    if (path == nullptr) GTEST_SKIP() << "SLUICE_TEST_TOKENIZER names no tokenizer.json";
    std::stringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    released_ = text.str();
  }
  std::string released_;
};

// Spec model.md §6.6.
TEST_F(ReleasedTokenizer, CutsHaveTheKnownClasses) {
  for (const auto& [n_tokens, n_classes] : {std::pair(4096, 3449), std::pair(8192, 6768)}) {
    Config config;
    config.vocab_size = n_tokens;
    config.engram_compressed_vocab_size = n_classes;
    config.engram_layer_ids = {1};
    const Result<std::string> cut = CutTokenizer(released_, n_tokens);
    ASSERT_TRUE(cut.has_value()) << cut.error().message();
    const Result<std::vector<int32_t>> classes = BuildTokenClasses(*cut, config);
    ASSERT_TRUE(classes.has_value()) << classes.error().message();
    EXPECT_EQ(static_cast<int>(classes->size()), n_tokens);
  }
}

TEST_F(ReleasedTokenizer, PresetsHaveTheirFiles) {
  EXPECT_TRUE(CheckReleasedTokenizer(released_).ok());
  const Preset& mini = *FindPreset("mini-b");
  const Result<std::vector<SideFile>> small = TokenFiles(mini, released_);
  ASSERT_TRUE(small.has_value()) << small.error().message();
  ASSERT_EQ(small->size(), 2u);
  EXPECT_EQ(*ParseTokenClasses((*small)[1].text, mini.config),
            *BuildTokenClasses((*small)[0].text, mini.config));
  const Result<Json> json = Json::Parse((*small)[0].text);
  EXPECT_EQ(json->root().Find("model").Find("merges").size(), 3818);
  EXPECT_EQ(Added(*json, 3).Find("id").AsInt64(), mini.config.dspark_noise_token_id);
  EXPECT_EQ(Added(*json, 13).Find("id").AsInt64(), mini.config.image_token_id);
  EXPECT_EQ(Added(*json, 13).Find("content").AsString(), "<｜deepseek_image｜>");
  const Result<std::vector<SideFile>> whole = TokenFiles(*FindPreset("slice-c"), released_);
  ASSERT_TRUE(whole.has_value()) << whole.error().message();
  ASSERT_EQ(whole->size(), 1u);
  EXPECT_EQ((*whole)[0].text, released_);
}

}  // namespace
}  // namespace sluice::model::deepseek_v41
