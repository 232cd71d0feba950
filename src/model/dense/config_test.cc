#include "model/dense/config.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/checkpoint/gguf_writer_test_impl.h"

namespace sluice::model::dense {
namespace {

using nlohmann::json;

// A config.json as released ones are.
json SmolLike() {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"model_type", "llama"},
          {"vocab_size", 49152},
          {"hidden_size", 576},
          {"intermediate_size", 1536},
          {"num_hidden_layers", 30},
          {"num_attention_heads", 9},
          {"num_key_value_heads", 3},
          {"max_position_embeddings", 8192},
          {"rms_norm_eps", 1e-05},
          {"rope_theta", 100000},
          {"rope_scaling", nullptr},
          {"hidden_act", "silu"},
          {"attention_bias", false},
          {"mlp_bias", false},
          {"pretraining_tp", 1},
          {"tie_word_embeddings", true},
          {"torch_dtype", "bfloat16"},
          {"bos_token_id", 1},
          {"eos_token_id", 2}};
}

json QwenLike() {
  return {{"architectures", {"Qwen2ForCausalLM"}},
          {"model_type", "qwen2"},
          {"vocab_size", 151936},
          {"hidden_size", 896},
          {"intermediate_size", 4864},
          {"num_hidden_layers", 24},
          {"num_attention_heads", 14},
          {"num_key_value_heads", 2},
          {"max_position_embeddings", 32768},
          {"max_window_layers", 21},
          {"rms_norm_eps", 1e-06},
          {"rope_theta", 1000000.0},
          {"hidden_act", "silu"},
          {"sliding_window", 32768},
          {"use_sliding_window", false},
          {"tie_word_embeddings", true},
          {"bos_token_id", 151643},
          {"eos_token_id", {151645, 151643}}};
}

Config Parse(const json& j) {
  Result<Config> config = Config::Parse(j.dump());
  if (!config) ADD_FAILURE() << config.error().message();
  return config ? *config : Config();
}

TEST(DenseConfig, ReleasedFilesAreReadWhole) {
  const Config smol = Parse(SmolLike());
  EXPECT_EQ(smol.head_dim, 64);
  EXPECT_EQ(smol.n_query_values(), 576);
  EXPECT_EQ(smol.n_key_values(), 192);
  EXPECT_EQ(smol.rope_theta, 100000);
  EXPECT_TRUE(smol.tie_word_embeddings);
  EXPECT_FALSE(smol.has_qkv_bias);
  EXPECT_EQ(smol.eos_token_id, 2);
  EXPECT_EQ(smol.pairing, ops::rotary::Pairing::kHalves);
  const Config qwen = Parse(QwenLike());
  EXPECT_TRUE(qwen.has_qkv_bias);
  EXPECT_EQ(qwen.head_dim, 64);
  EXPECT_EQ(qwen.eos_token_id, 151645) << "the first of a list";
  EXPECT_NE(smol.Text(), qwen.Text());
}

TEST(DenseConfig, WhatIsAbsentHasTheDefaultOfTheLibrary) {
  json j = SmolLike();
  for (const char* name : {"architectures", "num_key_value_heads", "rope_theta", "bos_token_id",
                           "eos_token_id", "tie_word_embeddings"}) {
    j.erase(name);
  }
  const Config config = Parse(j);
  EXPECT_EQ(config.num_key_value_heads, 9);
  EXPECT_EQ(config.rope_theta, 10000);
  EXPECT_EQ(config.eos_token_id, -1);
  EXPECT_FALSE(config.tie_word_embeddings);
  j["head_dim"] = nullptr;
  EXPECT_EQ(Parse(j).head_dim, 64);
  j["rope_parameters"] = {{"rope_theta", 5000.0}, {"rope_type", "default"}};
  EXPECT_EQ(Parse(j).rope_theta, 5000);
}

TEST(DenseConfig, EveryFieldIsCheckedAndNamedWithItsValueAndWhatIsAllowed) {
  struct Case {
    const char* field;
    json value;
    const char* message;
  };
  const std::vector<Case> cases = {
      {"model_type", "mistral", R"(model_type is "mistral"; it must be "llama" or "qwen2")"},
      {"architectures", {"LlamaForSequenceClassification"}, R"(it must be ["LlamaForCausalLM"])"},
      {"vocab_size", 2, "vocab_size is 2; it must be a whole number from 3 to 1048576"},
      {"hidden_size", "576", R"(hidden_size is "576"; it must be a whole number from 1 to 65536)"},
      {"intermediate_size", 1 << 20, "intermediate_size is 1048576"},
      {"num_hidden_layers", 0, "num_hidden_layers is 0; it must be a whole number from 1 to 1024"},
      {"num_attention_heads", -9, "num_attention_heads is -9"},
      {"num_key_value_heads", 2, "num_key_value_heads is 2; it must be a divisor of"},
      {"head_dim", 63, "head_dim is 63; it must be even, from 2 to 256"},
      {"head_dim", 258, "head_dim is 258"},
      {"max_position_embeddings", 1e9, "max_position_embeddings is"},
      {"rms_norm_eps", 0, "rms_norm_eps is 0; it must be a number from"},
      {"rope_theta", 1, "rope_theta is 1"},
      {"rope_scaling",
       {{"rope_type", "llama3"}, {"factor", 8}},
       R"(rope_scaling.rope_type is "llama3"; it must be "default")"},
      {"rope_scaling", {{"type", "linear"}, {"factor", 2}}, R"(rope_scaling.type is "linear")"},
      {"hidden_act", "gelu", R"(hidden_act is "gelu"; it must be "silu")"},
      {"attention_bias", true, "attention_bias is true; it must be false or null"},
      {"mlp_bias", true, "mlp_bias is true"},
      {"use_sliding_window", true, "use_sliding_window is true"},
      {"layer_types", {"full_attention", "sliding_attention"}, R"(layer_types has "sliding_att)"},
      {"partial_rotary_factor", 0.5, "partial_rotary_factor is 0.5"},
      {"quantization_config", {{"quant_method", "gptq"}}, "quantization_config is"},
      {"tie_word_embeddings", 1, "tie_word_embeddings is 1; it must be true or false"},
      {"eos_token_id", 49152, "eos_token_id is 49152; it must be below vocab_size, 49152"},
      {"bos_token_id", {-1}, "bos_token_id is"},
  };
  for (const Case& c : cases) {
    json j = SmolLike();
    j[c.field] = c.value;
    const Result<Config> config = Config::Parse(j.dump());
    ASSERT_FALSE(config.has_value()) << c.field << " " << c.value;
    EXPECT_NE(config.error().message().find(c.message), std::string::npos)
        << config.error().message();
  }
}

TEST(DenseConfig, WhatMustBeThereAndIsNotIsNamed) {
  for (const char* name :
       {"model_type", "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
        "num_attention_heads", "max_position_embeddings", "rms_norm_eps"}) {
    json j = SmolLike();
    j.erase(name);
    const Result<Config> config = Config::Parse(j.dump());
    ASSERT_FALSE(config.has_value()) << name;
    EXPECT_NE(config.error().message().find(std::string(name) + " is missing"), std::string::npos);
  }
  EXPECT_FALSE(Config::Parse("[]").has_value());
  EXPECT_FALSE(Config::Parse("{").has_value());
}

// --- GGUF ---

constexpr uint32_t kF32 = 0;

struct Gguf {
  std::string architecture = "llama";
  std::string edited;  // a key, without its architecture
  double value = 0;
  std::string text;  // then the key is text
  std::vector<std::pair<std::string, std::vector<uint64_t>>> more_tensors;

  std::string File() const {
    GgufWriter writer;
    writer.Text("general.architecture", architecture);
    const auto integer = [&](const std::string& name, int64_t n) {
      if (name == edited && !text.empty()) {
        writer.Text(architecture + "." + name, text);
      } else {
        writer.Key(architecture + "." + name, GgufType::kI64,
                   name == edited ? static_cast<int64_t>(value) : n);
      }
    };
    integer("block_count", 1);
    integer("context_length", 64);
    integer("embedding_length", 8);
    integer("feed_forward_length", 12);
    integer("attention.head_count", 4);
    integer("attention.head_count_kv", 2);
    integer("rope.dimension_count", 2);
    integer("vocab_size", 5);
    for (const char* name : {"expert_count", "attention.sliding_window", "attention.key_length"}) {
      if (edited == name) integer(name, 0);
    }
    if (edited == "rope.scaling.type") writer.Text(architecture + "." + edited, text);
    const bool is_eps = edited == "attention.layer_norm_rms_epsilon";
    writer.Key(architecture + ".attention.layer_norm_rms_epsilon", GgufType::kF32,
               static_cast<float>(is_eps ? value : 1e-5));
    writer.Key("tokenizer.ggml.eos_token_id", GgufType::kU32,
               static_cast<uint32_t>(edited == "eos" ? value : 2));
    const auto tensor = [&](const std::string& name, const std::vector<uint64_t>& dims) {
      uint64_t n = 1;
      for (const uint64_t dim : dims) n *= dim;
      writer.Tensor(name, kF32, dims, std::string(n * 4, '\0'));
    };
    if (edited != "no embedding") tensor("token_embd.weight", {8, 5});
    for (const auto& [name, dims] : more_tensors) tensor(name, dims);
    return writer.File();
  }
};

Result<Config> Read(const std::string& bytes) {
  Result<GgufFile> file = GgufFile::Parse(BytesOfText(bytes));
  if (!file) return file.error();
  return Config::FromGguf(*file);
}

TEST(DenseConfig, AGgufFileSaysItInItsMetadata) {
  const Result<Config> llama = Read(Gguf().File());
  ASSERT_TRUE(llama.has_value()) << llama.error().message();
  EXPECT_EQ(llama->vocab_size, 5);
  EXPECT_EQ(llama->head_dim, 2);
  EXPECT_EQ(llama->rope_theta, 10000);
  EXPECT_EQ(llama->eos_token_id, 2);
  EXPECT_EQ(llama->bos_token_id, -1);
  EXPECT_TRUE(llama->tie_word_embeddings) << "there is no output.weight";
  EXPECT_EQ(llama->pairing, ops::rotary::Pairing::kNeighbours);
  const Result<Config> qwen2 =
      Read(Gguf{.architecture = "qwen2", .more_tensors = {{"output.weight", {8, 5}}}}.File());
  ASSERT_TRUE(qwen2.has_value()) << qwen2.error().message();
  EXPECT_FALSE(qwen2->tie_word_embeddings);
  EXPECT_TRUE(qwen2->has_qkv_bias);
  EXPECT_EQ(qwen2->pairing, ops::rotary::Pairing::kHalves);
}

TEST(DenseConfig, WhatAGgufFileMayNotSayIsRefusedByKey) {
  struct Case {
    Gguf file;
    const char* message;
  };
  const std::vector<Case> cases = {
      {{.architecture = "gemma3"},
       R"(general.architecture is "gemma3"; it must be one of llama, )"},
      {{.edited = "block_count", .value = 1e6}, "llama.block_count is 1000000; it must be a whole"},
      {{.edited = "block_count", .text = "thirty"}, "llama.block_count"},
      {{.edited = "embedding_length", .value = 0}, "llama.embedding_length is 0"},
      {{.edited = "attention.head_count_kv", .value = 3}, "num_key_value_heads is 3"},
      {{.edited = "attention.head_count", .value = 8}, "head_dim is 1"},
      {{.edited = "rope.dimension_count", .value = 1}, "llama.rope.dimension_count is 1; it must"},
      {{.edited = "vocab_size", .value = 6}, "llama.vocab_size is 6; it must be 5"},
      {{.edited = "expert_count", .value = 8}, "llama.expert_count is 8; it must be 0"},
      {{.edited = "attention.sliding_window", .value = 4096}, "sliding_window is 4096"},
      {{.edited = "rope.scaling.type", .text = "yarn"}, R"(llama.rope.scaling.type is "yarn")"},
      {{.edited = "attention.layer_norm_rms_epsilon", .value = 0}, "rms_epsilon is 0"},
      {{.edited = "eos", .value = 9}, "eos_token_id is 9; it must be below vocab_size, 5"},
      {{.edited = "no embedding", .more_tensors = {{"a", {1}}}}, "token_embd.weight is missing"},
      {{.more_tensors = {{"rope_freqs.weight", {1}}}}, "rope_freqs.weight: scaled rotations"},
  };
  for (const Case& c : cases) {
    const Result<Config> config = Read(c.file.File());
    ASSERT_FALSE(config.has_value()) << c.message;
    EXPECT_NE(config.error().message().find(c.message), std::string::npos)
        << config.error().message();
  }
}

}  // namespace
}  // namespace sluice::model::dense
