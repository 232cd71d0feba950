// config.json of known models as text, and of one that is small enough to write whole checkpoints.
// For tests.

#pragma once

#include <string>
#include <string_view>

#include "base/check.h"

namespace sluice::model::deepseek_v41 {

// The released model (spec model.md §1.1). One field a line, for SetField.
inline std::string ReleasedConfig() {
  // tidy: long-function, one JSON text
  return R"({
"architectures": ["DeepseekV41ForCausalLM"],
"model_type": "deepseek_v41",
"dtype": "bfloat16",
"transformers_version": "5.6.0",
"bos_token_id": 0,
"eos_token_id": 1,
"pad_token_id": 2,
"image_token_id": 129264,
"text_config": {
"model_type": "deepseek_v41_text",
"vocab_size": 129280,
"num_hidden_layers": 40,
"hidden_size": 5120,
"num_attention_heads": 64,
"moe_intermediate_size": 2304,
"num_key_value_heads": 1,
"head_dim": 512,
"qk_rope_head_dim": 64,
"q_lora_rank": 1280,
"o_lora_rank": 1024,
"o_groups": 8,
"hidden_act": "silu",
"swiglu_limit": 10.0,
"rms_norm_eps": 1e-20,
"attention_bias": false,
"attention_dropout": 0.0,
"initializer_range": 0.02,
"use_cache": true,
"tie_word_embeddings": false,
"max_position_embeddings": 1048576,
"rope_theta": 10000,
"compress_rope_theta": 160000,
"rope_scaling": {"rope_type": "yarn", "factor": 16, "beta_fast": 32, "beta_slow": 1,
 "original_max_position_embeddings": 65536},
"sliding_window": 128,
"n_routed_experts": 384,
"n_shared_experts": 1,
"num_experts_per_tok": 6,
"scoring_func": "sqrtsoftplus",
"topk_method": "noaux_tc",
"norm_topk_prob": true,
"routed_scaling_factor": 1.5,
"compress_ratios": [0,0,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,
 1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,0,0,0],
"kv_source_layer_ids": [2, 8, 14, 20],
"index_source_layer_ids": [2, 8, 14, 20, 24, 28, 32, 36],
"index_n_heads": 32,
"index_head_dim": 128,
"index_topk": 512,
"candidate_source_layer_id": 20,
"candidate_topk_blocks": 2048,
"candidate_block_size": 8,
"hc_mult": 4,
"hc_sinkhorn_iters": 20,
"hc_eps": 1e-6,
"engram_layer_ids": [1, 14],
"engram_num_embeddings": [384006168, 384016682],
"engram_max_ngram_size": 4,
"engram_vocab_size": 16000000,
"engram_n_heads": 8,
"engram_head_dim": 256,
"engram_pad_token_id": 2,
"engram_compressed_vocab_size": 99092,
"num_nextn_predict_layers": 3,
"dspark_block_size": 5,
"dspark_noise_token_id": 128799,
"dspark_target_layer_ids": [37, 38, 39],
"dspark_markov_rank": 256,
"dspark_n_routed_experts": 128,
"dspark_num_experts_per_tok": 3
},
"vision_config": {"model_type": "deepseek_v41_vision", "num_hidden_layers": 32, "hidden_size": 1024,
 "num_attention_heads": 16, "intermediate_size": 2816, "patch_size": 14, "rope_theta": 10000,
 "downsample_ratio": 3, "max_image_tokens": 1024, "min_pixels": 295936, "max_wh_ratio": null},
"quantization_config": {"quant_method": "fp8", "activation_scheme": "dynamic",
 "weight_block_size": [32, 32], "scale_fmt": "ue8m0", "expert_dtype": "fp4"}
})";
}

// The line of a top-level or text_config field, without its comma.
struct FieldLine {
  size_t begin, end;
};
inline FieldLine FindField(const std::string& config, std::string_view name) {
  const std::string key = "\n\"" + std::string(name) + "\": ";
  const size_t begin = config.find(key);
  SLUICE_CHECK(begin != std::string::npos);
  size_t end = begin + key.size();
  // To the end of the value: a closing bracket at the same depth belongs to the object around it.
  for (int depth = 0; depth > 0 || (config[end] != ',' && config[end] != '\n'); ++end) {
    depth += config[end] == '[' || config[end] == '{' ? 1 : 0;
    depth -= config[end] == ']' || config[end] == '}' ? 1 : 0;
  }
  return {begin + 1, end};
}

// `config` with another value, a JSON text, of the field `name`.
inline std::string SetField(std::string config, std::string_view name, std::string_view value) {
  const FieldLine line = FindField(config, name);
  return config.replace(line.begin, line.end - line.begin,
                        "\"" + std::string(name) + "\": " + std::string(value));
}

// Without the field; something unknown stands in its place.
inline std::string DropField(std::string config, std::string_view name) {
  const FieldLine line = FindField(config, name);
  return config.replace(line.begin, line.end - line.begin, "\"other\": 0");
}

// Renamed to its other spelling, or to a second line beside it.
inline std::string RenameField(std::string config, std::string_view name, std::string_view alias) {
  const FieldLine line = FindField(config, name);
  return config.replace(line.begin, name.size() + 2, "\"" + std::string(alias) + "\"");
}
inline std::string AddBeside(std::string config, std::string_view name, std::string_view line) {
  return config.insert(FindField(config, name).begin, std::string(line) + ",\n");
}

struct FieldValue {
  std::string_view name;
  std::string_view value;
};
template <size_t kN>
std::string SetFields(std::string config, const FieldValue (&fields)[kN]) {
  for (const FieldValue& field : fields) config = SetField(config, field.name, field.value);
  return config;
}

// Spec model.md §6.2.
inline std::string MiniBConfig() {
  constexpr FieldValue kFields[] = {
      {"vocab_size", "4096"},
      {"num_hidden_layers", "16"},
      {"hidden_size", "512"},
      {"num_attention_heads", "8"},
      {"moe_intermediate_size", "256"},
      {"head_dim", "128"},
      {"qk_rope_head_dim", "32"},
      {"q_lora_rank", "192"},
      {"o_lora_rank", "128"},
      {"o_groups", "4"},
      {"max_position_embeddings", "131072"},
      {"rope_scaling", R"({"rope_type": "yarn", "factor": 16, "beta_fast": 32, "beta_slow": 1,
                           "original_max_position_embeddings": 8192})"},
      {"sliding_window", "64"},
      {"n_routed_experts", "32"},
      {"num_experts_per_tok", "4"},
      {"compress_ratios", "[0,0,2,2,2,2,2,2,1,1,1,1,1,1,1,1,0,0,0]"},
      {"kv_source_layer_ids", "[2, 5, 8]"},
      {"index_source_layer_ids", "[2, 5, 8, 10, 12, 14]"},
      {"index_n_heads", "16"},
      {"index_head_dim", "64"},
      {"index_topk", "64"},
      {"candidate_source_layer_id", "8"},
      {"candidate_topk_blocks", "32"},
      {"engram_layer_ids", "[1, 5]"},
      {"engram_vocab_size", "8192"},
      {"engram_num_embeddings", "[98976, 100204]"},
      {"engram_n_heads", "4"},
      {"engram_head_dim", "64"},
      {"engram_compressed_vocab_size", "3449"},
      {"image_token_id", "4087"},
      {"dspark_noise_token_id", "4077"},
      {"dspark_target_layer_ids", "[13, 14, 15]"},
      {"dspark_n_routed_experts", "16"},
      {"dspark_markov_rank", "64"},
      {"vision_config", "null"}};
  return SetFields(ReleasedConfig(), kFields);
}

// Spec model.md §6.5.
inline std::string SliceCConfig() {
  constexpr FieldValue kFields[] = {{"num_hidden_layers", "8"},
                                    {"compress_ratios", "[0,0,2,2,1,1,1,1,0,0,0]"},
                                    {"kv_source_layer_ids", "[2, 4]"},
                                    {"index_source_layer_ids", "[2, 4, 6]"},
                                    {"candidate_source_layer_id", "4"},
                                    {"n_routed_experts", "48"},
                                    {"engram_layer_ids", "[1]"},
                                    {"engram_vocab_size", "65536"},
                                    {"engram_num_embeddings", "[1574980]"},
                                    {"dspark_target_layer_ids", "[5, 6, 7]"},
                                    {"dspark_n_routed_experts", "16"},
                                    {"vision_config", "null"}};
  return SetFields(ReleasedConfig(), kFields);
}

// Spec model.md §6.1.
inline std::string TinyAConfig() {
  constexpr FieldValue kFields[] = {
      {"vocab_size", "512"},
      {"num_hidden_layers", "12"},
      {"hidden_size", "128"},
      {"num_attention_heads", "4"},
      {"moe_intermediate_size", "64"},
      {"head_dim", "64"},
      {"qk_rope_head_dim", "16"},
      {"q_lora_rank", "64"},
      {"o_lora_rank", "32"},
      {"o_groups", "2"},
      {"max_position_embeddings", "1024"},
      {"rope_scaling", R"({"rope_type": "yarn", "factor": 4, "beta_fast": 32, "beta_slow": 1,
                           "original_max_position_embeddings": 64})"},
      {"sliding_window", "16"},
      {"n_routed_experts", "16"},
      {"num_experts_per_tok", "3"},
      {"compress_ratios", "[0,0,2,2,2,2,1,1,1,1,1,1,0,0,0]"},
      {"kv_source_layer_ids", "[2, 4, 6]"},
      {"index_source_layer_ids", "[2, 4, 6, 8, 10]"},
      {"index_n_heads", "16"},
      {"index_head_dim", "32"},
      {"index_topk", "8"},
      {"candidate_source_layer_id", "6"},
      {"candidate_topk_blocks", "4"},
      {"candidate_block_size", "4"},
      {"engram_layer_ids", "[1, 4]"},
      {"engram_vocab_size", "512"},
      {"engram_num_embeddings", "[3252, 3496]"},
      {"engram_n_heads", "2"},
      {"engram_head_dim", "32"},
      {"engram_compressed_vocab_size", "400"},
      {"image_token_id", "507"},
      {"dspark_noise_token_id", "500"},
      {"dspark_target_layer_ids", "[9, 10, 11]"},
      {"dspark_n_routed_experts", "8"},
      {"dspark_num_experts_per_tok", "2"},
      {"dspark_markov_rank", "32"},
      {"vision_config", "null"}};
  return SetFields(ReleasedConfig(), kFields);
}

// One layer of every kind, as small as the rules allow. Its Engram table has no primes behind it:
// for tests of files, not of the forward pass.
inline std::string MicroConfig() {
  constexpr FieldValue kFields[] = {
      {"vocab_size", "64"},
      {"num_hidden_layers", "4"},
      {"hidden_size", "32"},
      {"num_attention_heads", "2"},
      {"moe_intermediate_size", "32"},
      {"head_dim", "32"},
      {"qk_rope_head_dim", "16"},
      {"q_lora_rank", "32"},
      {"o_lora_rank", "32"},
      {"o_groups", "1"},
      {"max_position_embeddings", "256"},
      {"rope_scaling", R"({"rope_type": "yarn", "factor": 4, "beta_fast": 32, "beta_slow": 1,
                           "original_max_position_embeddings": 64})"},
      {"sliding_window", "8"},
      {"n_routed_experts", "2"},
      {"num_experts_per_tok", "1"},
      {"compress_ratios", "[0,2,1,1,0]"},
      {"kv_source_layer_ids", "[1, 2]"},
      {"index_source_layer_ids", "[1, 2, 3]"},
      {"index_n_heads", "8"},
      {"index_head_dim", "32"},
      {"index_topk", "4"},
      {"candidate_source_layer_id", "2"},
      {"candidate_topk_blocks", "4"},
      {"candidate_block_size", "4"},
      {"engram_layer_ids", "[1]"},
      {"engram_vocab_size", "8"},
      {"engram_num_embeddings", "[100]"},
      {"engram_n_heads", "2"},
      {"engram_head_dim", "32"},
      {"engram_compressed_vocab_size", "50"},
      {"image_token_id", "60"},
      {"dspark_noise_token_id", "61"},
      {"num_nextn_predict_layers", "1"},
      {"dspark_target_layer_ids", "[2, 3]"},
      {"dspark_n_routed_experts", "2"},
      {"dspark_num_experts_per_tok", "1"},
      {"dspark_markov_rank", "32"},
      {"vision_config", "null"}};
  return SetFields(ReleasedConfig(), kFields);
}

}  // namespace sluice::model::deepseek_v41
