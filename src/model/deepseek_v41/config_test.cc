#include "model/deepseek_v41/config.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "model/deepseek_v41/config_samples_test_impl.h"

namespace sluice::model::deepseek_v41 {
namespace {

Config Parse(const std::string& json) {
  Result<Config> config = Config::Parse(json);
  EXPECT_TRUE(config.has_value()) << config.status().message();
  return *config;
}

std::string Refusal(const std::string& json) {
  const Result<Config> config = Config::Parse(json);
  EXPECT_FALSE(config.has_value());
  return config.has_value() ? "" : std::string(config.error().message());
}

TEST(Config, TheReleasedOneIsReadWhole) {
  const Config c = Parse(ReleasedConfig());
  EXPECT_EQ(c.hidden_size, 5120);
  EXPECT_EQ(c.rms_norm_eps, 1e-20);
  EXPECT_EQ(c.yarn_factor, 16);
  EXPECT_EQ(c.yarn_original, 65536);
  EXPECT_EQ(c.max_position_embeddings, 1048576);
  EXPECT_EQ(c.engram_num_embeddings, (std::vector<int64_t>{384006168, 384016682}));
  EXPECT_EQ(c.image_token_id, 129264);
  ASSERT_TRUE(c.vision.has_value());
  EXPECT_EQ(c.vision->patch_values(), 588);
  EXPECT_EQ(c.n_query_values(), 32768);
  EXPECT_EQ(c.n_group_inputs(), 4096);
  EXPECT_EQ(c.n_group_outputs(), 8192);
  EXPECT_EQ(c.n_hyper_values(), 24);
  EXPECT_EQ(c.n_lookups(), 24);
  EXPECT_EQ(c.n_taps(), 3);
}

// Spec model.md §1.4.
TEST(Config, LayersHaveTheirSources) {
  const Config c = Parse(ReleasedConfig());
  EXPECT_EQ(c.decoder_start(), 20);
  const std::vector<std::pair<int32_t, int32_t>> first_and_source = {
      {0, -1}, {2, 2}, {8, 8}, {14, 14}, {20, 20}};
  for (int32_t layer = 0; layer < 40; ++layer) {
    int32_t kv = -1, index = -1;
    for (const auto& [first, source] : first_and_source) kv = layer >= first ? source : kv;
    for (int32_t source : {2, 8, 14, 20, 24, 28, 32, 36}) index = layer >= source ? source : index;
    EXPECT_EQ(c.KvSource(layer), kv) << layer;
    EXPECT_EQ(c.IndexSource(layer), index) << layer;
    EXPECT_EQ(c.IsKvSource(layer), layer == kv) << layer;
    EXPECT_EQ(c.IsIndexSource(layer), layer == index) << layer;
    EXPECT_EQ(c.EngramIndex(layer), layer == 1 ? 0 : layer == 14 ? 1 : -1) << layer;
  }
  EXPECT_EQ(c.KvSource(41), -1);  // of the draft
}

TEST(Config, OurOtherModelsAreRead) {
  for (const std::string& json : {MiniBConfig(), SliceCConfig(), TinyAConfig(), MicroConfig()}) {
    EXPECT_FALSE(Parse(json).vision.has_value());
  }
}

// Spec model.md §1.2: the other spelling, nested or flat.
TEST(Config, EveryAliasIsRead) {
  struct Alias {
    const char* name;
    const char* alias;
  };
  constexpr Alias kAliases[] = {{"hidden_size", "dim"},
                                {"moe_intermediate_size", "moe_inter_dim"},
                                {"num_hidden_layers", "n_layers"},
                                {"num_attention_heads", "n_heads"},
                                {"qk_rope_head_dim", "rope_head_dim"},
                                {"rms_norm_eps", "norm_eps"},
                                {"sliding_window", "window_size"},
                                {"kv_source_layer_ids", "kv_source_layers"},
                                {"index_source_layer_ids", "index_source_layers"},
                                {"candidate_source_layer_id", "candidate_source_layer"},
                                {"num_experts_per_tok", "n_activated_experts"},
                                {"scoring_func", "score_func"},
                                {"routed_scaling_factor", "route_scale"},
                                {"num_nextn_predict_layers", "n_mtp_layers"},
                                {"engram_pad_token_id", "engram_pad_id"},
                                {"dspark_num_experts_per_tok", "dspark_n_activated_experts"}};
  std::string all = ReleasedConfig();
  for (const auto& [name, alias] : kAliases) {
    const std::string renamed = RenameField(ReleasedConfig(), name, alias);
    EXPECT_TRUE(Config::Parse(renamed).has_value()) << name;
    all = RenameField(all, name, alias);
    const std::string both =
        AddBeside(renamed, alias, fmt::format("\"{}\": \"something else\"", name));
    EXPECT_NE(Refusal(both).find("must be"), std::string::npos) << name;
  }
  EXPECT_TRUE(Config::Parse(all).has_value());
}

TEST(Config, TwoSpellingsMustAgree) {
  const std::string same = AddBeside(ReleasedConfig(), "hidden_size", "\"dim\": 5120");
  EXPECT_EQ(Parse(same).hidden_size, 5120);
  const std::string other = AddBeside(ReleasedConfig(), "hidden_size", "\"dim\": 4096");
  EXPECT_EQ(Refusal(other),
            "config.json: hidden_size is 5120 and dim is 4096; they mean the same and must "
            "be equal");
  // Also at the top, beside text_config, and in another type of the same value.
  EXPECT_NE(Refusal(AddBeside(ReleasedConfig(), "dtype", "\"vocab_size\": 7")).find("vocab_size"),
            std::string::npos);
  EXPECT_EQ(Parse(AddBeside(ReleasedConfig(), "rope_theta", "\"rope_factor\": 16.0")).yarn_factor,
            16);
}

// inference/config.json: no text_config, other names, and neither tokens nor a length.
TEST(Config, TheFlatFormIsRead) {
  std::string json = MiniBConfig();
  for (const char* name : {"architectures", "model_type", "bos_token_id", "eos_token_id",
                           "pad_token_id", "image_token_id", "max_position_embeddings"}) {
    json = DropField(json, name);
  }
  json = SetField(json, "dtype", "\"fp8\"");
  json = SetField(json, "quantization_config", "null");
  json = SetField(json, "rope_scaling",
                  "\"original_seq_len\": 8192, \"rope_factor\": 16, \"beta_fast\": 32, "
                  "\"beta_slow\": 1");
  json.replace(json.find("\"rope_scaling\": \"original"), std::string("\"rope_scaling\": ").size(),
               "");
  const size_t open = json.find("\"text_config\": {");
  json.erase(open, std::string("\"text_config\": {").size());
  json.erase(json.rfind("},\n\"vision_config\""), 1);
  // The inner model_type went with its object.
  json = DropField(json, "model_type");
  const Config flat = Parse(json);
  const Config nested = Parse(MiniBConfig());
  EXPECT_EQ(flat.max_position_embeddings, nested.max_position_embeddings);
  EXPECT_EQ(flat.yarn_original, 8192);
  EXPECT_EQ(flat.pad_token_id, 2);
  EXPECT_EQ(flat.image_token_id, -1);
}

TEST(Config, AMissingFieldIsNamed) {
  const std::string json = ReleasedConfig();
  for (const char* name :
       {"architectures", "bos_token_id", "image_token_id", "vocab_size", "hidden_size", "head_dim",
        "hidden_act", "rope_theta", "sliding_window", "scoring_func", "compress_ratios",
        "kv_source_layer_ids", "hc_eps", "engram_layer_ids", "engram_num_embeddings",
        "engram_vocab_size", "max_position_embeddings", "dspark_target_layer_ids"}) {
    const Result<Config> config = Config::Parse(DropField(json, name));
    ASSERT_FALSE(config.has_value()) << name;
    EXPECT_EQ(config.error().param(), name);
    EXPECT_NE(config.error().message().find("missing"), std::string::npos);
  }
  EXPECT_EQ(Refusal(DropField(json, "rope_scaling")),
            "config.json: rope_scaling.rope_type (or rope_scaling.type) is missing");
  EXPECT_EQ(Refusal(DropField(json, "quantization_config")),
            "config.json: quantization_config.quant_method is missing");
}

TEST(Config, WhatIsNotImplementedIsRefused) {
  struct Case {
    const char* field;
    const char* value;
    const char* message;
  };
  const Case cases[] = {
      {"architectures", R"(["LlamaForCausalLM"])", R"(must be ["DeepseekV41ForCausalLM"])"},
      {"model_type", R"("deepseek_v4")",
       R"(is "deepseek_v4"; it must be "deepseek_v41" or "deepseek_v41_text")"},
      {"dtype", R"("float16")", R"(must be "bfloat16" or "fp8")"},
      {"num_key_value_heads", "8", "num_key_value_heads is 8; it must be 1"},
      {"hidden_act", R"("gelu")", R"(must be "silu")"},
      {"attention_bias", "true", "must be false"},
      {"tie_word_embeddings", "true", "must be false"},
      {"scoring_func", R"("sigmoid")", R"(must be "sqrtsoftplus")"},
      {"topk_method", R"("greedy")", R"(must be "noaux_tc")"},
      {"norm_topk_prob", "false", "must be true"},
      {"n_shared_experts", "2", "must be 1"},
      {"rope_scaling", R"({"rope_type": "linear"})", R"(must be "yarn")"},
      {"quantization_config", R"({"quant_method": "awq"})", R"(must be "fp8")"},
      {"quantization_config",
       R"({"quant_method": "fp8", "activation_scheme": "dynamic",
           "weight_block_size": [128, 128]})",
       R"(weight_block_size is [128,128]; it must be [32,32])"}};
  for (const Case& c : cases) {
    const Result<Config> config = Config::Parse(SetField(ReleasedConfig(), c.field, c.value));
    ASSERT_FALSE(config.has_value()) << c.field;
    EXPECT_EQ(config.error().code(), ErrorCode::kUnsupported) << c.field;
    EXPECT_NE(config.error().message().find(c.message), std::string::npos)
        << config.error().message();
  }
  const std::string grouped = AddBeside(ReleasedConfig(), "hidden_size", "\"n_group\": 8");
  EXPECT_NE(Refusal(grouped).find("n_group is 8; it must be 1 or null"), std::string::npos);
  const std::string warm = AddBeside(ReleasedConfig(), "hidden_size", "\"gate_temp\": 2.0");
  EXPECT_NE(Refusal(warm).find("gate_temp"), std::string::npos);
}

// Each: a field, a value that has no meaning, and a part of the sentence.
TEST(Config, ValuesOutOfRangeAndAgainstEachOtherAreRefused) {
  struct Case {
    const char* field;
    const char* value;
    const char* message;
  };
  const Case cases[] = {
      {"hidden_size", "0", "whole number from 32 to 65536"},
      {"hidden_size", "-32", "whole number"},
      {"hidden_size", "5120.0", "whole number"},
      {"hidden_size", "\"5120\"", "whole number"},
      {"hidden_size", "null", "whole number"},
      {"hidden_size", "9223372036854775808", "whole number"},
      {"hidden_size", "18446744073709551616", "whole number"},
      {"hidden_size", "[]", "whole number"},
      {"hidden_size", "5121", "multiple of 32"},
      {"vocab_size", "1000000000", "whole number"},
      {"vocab_size", "129264", "image_token_id is 129264; it must be below vocab_size 129264"},
      {"rms_norm_eps", "0", "number from"},
      {"rms_norm_eps", "1e-40", "number from"},
      {"rope_theta", "\"x\"", "number from"},
      {"swiglu_limit", "-1", "number from"},
      {"compress_ratios", "[0, 0]", "compress_ratios has 2 entries; it must have one for each"},
      {"compress_ratios", "3", "a list of at most"},
      {"compress_ratios", "[0.5]", "a list of at most"},
      {"kv_source_layer_ids", "[2, 8, 14, 21]", "lacks 21, which is a KV source"},
      {"kv_source_layer_ids", "[20, 2]", "must ascend"},
      {"kv_source_layer_ids", "[2, 2, 20]", "must ascend"},
      {"kv_source_layer_ids", "[2, 8, 14, 40]", "name layers below 40"},
      {"kv_source_layer_ids", "[]", "it must name the first decoder layer"},
      {"kv_source_layer_ids", "[2, 8, 14]", "it must be 14, the last of kv_source_layer_ids"},
      {"kv_source_layer_ids", "[8, 14, 20]", "has no source for layer 2"},
      {"kv_source_layer_ids", "[2, 20]", nullptr},
      {"index_source_layer_ids", "[0, 2, 8, 14, 20]", "names layer 0, whose compress_ratio is 0"},
      {"candidate_topk_blocks", "64", "the kept blocks have at least 505 entries"},
      {"qk_rope_head_dim", "256", "at most 128"},
      {"qk_rope_head_dim", "63", "must be even"},
      {"o_groups", "7", "must divide num_attention_heads 64"},
      {"hc_mult", "9", "whole number from 1 to 8"},
      {"num_experts_per_tok", "7", nullptr},
      {"n_routed_experts", "4", "num_experts_per_tok is 6; there are 4"},
      {"n_routed_experts", "4096", "at most 524288 are allowed"},
      {"engram_layer_ids", "[14, 1]", "must ascend"},
      {"engram_layer_ids", "[1]", "must have one for each of 1"},
      {"engram_num_embeddings", "[384006168, 1099511627777]", "1099511627776"},
      {"engram_vocab_size", "4294967297", "a whole number from 2 to 4294967296"},
      {"engram_compressed_vocab_size", "129281", "there are 129280 tokens"},
      {"dspark_target_layer_ids", "[37, 40]", "below 40"},
      {"dspark_noise_token_id", "129280", "below vocab_size"},
      {"text_config", "0", "vocab_size is missing"},
      {"vision_config", R"({"hidden_size": 1024})", "vision_config.num_hidden_layers is missing"}};
  for (const Case& c : cases) {
    const Result<Config> config = Config::Parse(SetField(ReleasedConfig(), c.field, c.value));
    ASSERT_EQ(config.has_value(), c.message == nullptr) << c.field << " " << c.value;
    if (c.message == nullptr) continue;
    EXPECT_NE(config.error().message().find(c.message), std::string::npos)
        << c.field << ": " << config.error().message();
  }
}

TEST(Config, ALayerAndItsSourceHaveOneRatio) {
  std::string json = SetField(MicroConfig(), "compress_ratios", "[0,2,1,2,0]");
  EXPECT_EQ(Refusal(json),
            "config.json: compress_ratios is 2 for layer 3 and 1 for its KV source 2; they must be "
            "equal");
  json = SetField(MicroConfig(), "compress_ratios", "[0,2,1,1,1]");
  EXPECT_NE(Refusal(json).find("a draft stage has ratio 0"), std::string::npos);
  json = SetField(MicroConfig(), "compress_ratios", "[0,4,1,1,0]");
  EXPECT_NE(Refusal(json).find("has 4 at entry 1; 0, 1 and 2 are allowed"), std::string::npos);
}

// Each look-up has a prime of its own: with all of them to find, `sluice inspect` did not end.
TEST(Config, LookUpsPerTokenAreBounded) {
  std::string layers = "0";
  std::string rows = "1";
  for (int32_t layer = 1; layer < 22; ++layer) {
    layers += fmt::format(",{}", layer);
    rows += ",1";
  }
  std::string json = SetField(ReleasedConfig(), "engram_layer_ids", "[" + layers + "]");
  json = SetField(json, "engram_num_embeddings", "[" + rows + "]");
  EXPECT_EQ(Refusal(SetField(json, "engram_n_heads", "64")),
            "config.json: engram_n_heads is 64: 22 engram_layer_ids and engram_max_ngram_size 4 "
            "make 4224 look-ups a token, at most 4096 are allowed");
  EXPECT_TRUE(Config::Parse(SetField(json, "engram_n_heads", "62")).has_value());
}

TEST(Config, TextThatIsNoConfigIsRefused) {
  EXPECT_NE(Refusal("").find("invalid JSON"), std::string::npos);
  EXPECT_EQ(Refusal("[]"), "config.json: must be an object");
  EXPECT_NE(Refusal("{}").find("is missing"), std::string::npos);
  EXPECT_NE(Refusal(std::string(100, '[')).find("invalid JSON"), std::string::npos);
  EXPECT_NE(Refusal(std::string((1 << 20) + 1, ' ')).find("at most 1048576"), std::string::npos);
}

}  // namespace
}  // namespace sluice::model::deepseek_v41
