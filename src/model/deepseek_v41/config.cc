#include "model/deepseek_v41/config.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/json.h"
#include "base/limits.h"
#include "model/checkpoint/config_reader.h"

namespace sluice::model::deepseek_v41 {
namespace {

// Sizes are bounded so that products of two of them fit 32 bits and a hostile file cannot make us
// allocate much before its tensors are compared.
constexpr int64_t kMaxSize = 1 << 16;
constexpr int64_t kMaxTokens = 1 << 24;
constexpr int64_t kMaxEngramRows = int64_t{1} << 40;
// Primes are searched from here on, each by dividing up to its root: 65,536 at most.
constexpr int64_t kMaxEngramVocab = int64_t{1} << 32;

struct IntField {
  const char* name;
  const char* alias;  // in inference/config.json; null: the same
  int32_t Config::* field;
  int64_t min, max;
};

constexpr IntField kIntFields[] = {
    {"vocab_size", nullptr, &Config::vocab_size, 3, kMaxTokens},
    {"hidden_size", "dim", &Config::hidden_size, 32, kMaxSize},
    {"moe_intermediate_size", "moe_inter_dim", &Config::moe_intermediate_size, 32, kMaxSize},
    {"num_hidden_layers", "n_layers", &Config::num_hidden_layers, 1, 1024},
    {"num_attention_heads", "n_heads", &Config::num_attention_heads, 1, 1024},
    {"head_dim", nullptr, &Config::head_dim, 32, 4096},
    {"qk_rope_head_dim", "rope_head_dim", &Config::qk_rope_head_dim, 2, 4096},
    {"q_lora_rank", nullptr, &Config::q_lora_rank, 32, kMaxSize},
    {"o_lora_rank", nullptr, &Config::o_lora_rank, 32, kMaxSize},
    {"o_groups", nullptr, &Config::o_groups, 1, 1024},
    {"sliding_window", "window_size", &Config::sliding_window, 1, kMaxSize},
    {"n_routed_experts", nullptr, &Config::n_routed_experts, 1, 4096},
    {"num_experts_per_tok", "n_activated_experts", &Config::num_experts_per_tok, 1, 64},
    {"index_n_heads", nullptr, &Config::index_n_heads, 1, 1024},
    {"index_head_dim", nullptr, &Config::index_head_dim, 32, 4096},
    {"index_topk", nullptr, &Config::index_topk, 1, kMaxSize},
    {"candidate_source_layer_id", "candidate_source_layer", &Config::candidate_source_layer_id, 0,
     1023},
    {"candidate_topk_blocks", nullptr, &Config::candidate_topk_blocks, 1, kMaxSize},
    {"candidate_block_size", nullptr, &Config::candidate_block_size, 1, 1024},
    {"hc_mult", nullptr, &Config::hc_mult, 1, 8},
    {"hc_sinkhorn_iters", nullptr, &Config::hc_sinkhorn_iters, 1, 1000},
    {"engram_max_ngram_size", nullptr, &Config::engram_max_ngram_size, 2, 8},
    {"engram_n_heads", nullptr, &Config::engram_n_heads, 1, 64},
    {"engram_head_dim", nullptr, &Config::engram_head_dim, 32, 4096},
    {"engram_pad_token_id", "engram_pad_id", &Config::engram_pad_token_id, 0, kMaxTokens},
    {"engram_compressed_vocab_size", nullptr, &Config::engram_compressed_vocab_size, 1, kMaxTokens},
    {"num_nextn_predict_layers", "n_mtp_layers", &Config::num_nextn_predict_layers, 0, 64},
    {"dspark_block_size", nullptr, &Config::dspark_block_size, 1, 64},
    {"dspark_noise_token_id", nullptr, &Config::dspark_noise_token_id, 0, kMaxTokens},
    {"dspark_markov_rank", nullptr, &Config::dspark_markov_rank, 1, kMaxSize},
    {"dspark_n_routed_experts", nullptr, &Config::dspark_n_routed_experts, 1, 4096},
    {"dspark_num_experts_per_tok", "dspark_n_activated_experts",
     &Config::dspark_num_experts_per_tok, 1, 64},
    {"rope_scaling.original_max_position_embeddings", "original_seq_len", &Config::yarn_original, 1,
     kMaxTokens},
};

struct DoubleField {
  const char* name;
  const char* alias;
  double Config::* field;
  double min, max;  // both allowed
};

constexpr DoubleField kDoubleFields[] = {
    {"swiglu_limit", nullptr, &Config::swiglu_limit, 0, 1e6},
    // Below the smallest normal float it would be flushed to zero.
    {"rms_norm_eps", "norm_eps", &Config::rms_norm_eps, 1.2e-38, 1},
    {"hc_eps", nullptr, &Config::hc_eps, 1.2e-38, 1},
    {"rope_theta", nullptr, &Config::rope_theta, 1.001, 1e12},
    {"compress_rope_theta", nullptr, &Config::compress_rope_theta, 1.001, 1e12},
    {"rope_scaling.factor", "rope_factor", &Config::yarn_factor, 1, 1e6},
    {"rope_scaling.beta_fast", "beta_fast", &Config::yarn_beta_fast, 1e-6, 1e6},
    {"rope_scaling.beta_slow", "beta_slow", &Config::yarn_beta_slow, 1e-6, 1e6},
    {"routed_scaling_factor", "route_scale", &Config::routed_scaling_factor, 1e-6, 1e6},
};

struct ListField {
  const char* name;
  const char* alias;
  std::vector<int32_t> Config::* field;
};

constexpr ListField kListFields[] = {
    {"compress_ratios", nullptr, &Config::compress_ratios},
    {"kv_source_layer_ids", "kv_source_layers", &Config::kv_source_layer_ids},
    {"index_source_layer_ids", "index_source_layers", &Config::index_source_layer_ids},
    {"engram_layer_ids", nullptr, &Config::engram_layer_ids},
    {"dspark_target_layer_ids", nullptr, &Config::dspark_target_layer_ids},
};

// A field that has one value which is implemented, as JSON text. Two spellings of a value, or of a
// name, are two lines.
struct FixedField {
  const char* name;
  const char* alias;
  const char* allowed;       // values, each as compact JSON, with " or " between
  bool is_required = false;  // in the Hugging Face form
};

constexpr FixedField kFixedFields[] = {
    {"architectures", nullptr, R"(["DeepseekV41ForCausalLM"])", true},
    // The second stands in text_config, or at the top of a file that is a text_config.
    {"model_type", nullptr, R"("deepseek_v41" or "deepseek_v41_text")", true},
    {"dtype", "torch_dtype", R"("bfloat16" or "fp8")"},
    {"num_key_value_heads", nullptr, "1"},
    {"hidden_act", nullptr, R"("silu")", true},
    {"attention_bias", nullptr, "false"},
    {"tie_word_embeddings", nullptr, "false"},
    {"rope_scaling.rope_type", "rope_scaling.type", R"("yarn")", true},
    {"n_shared_experts", nullptr, "1", true},
    {"scoring_func", "score_func", R"("sqrtsoftplus")", true},
    {"topk_method", nullptr, R"("noaux_tc")", true},
    {"norm_topk_prob", nullptr, "true", true},
    {"gate_temp", nullptr, "1 or 1.0"},
    // Not in V4.1; a file that has them with another value is of another model.
    {"n_group", nullptr, "1 or null"},
    {"topk_group", nullptr, "1 or null"},
    {"num_hash_layers", nullptr, "0 or null"},
    {"first_k_dense_replace", nullptr, "0 or null"},
    {"quantization_config.quant_method", nullptr, R"("fp8")", true},
    {"quantization_config.activation_scheme", nullptr, R"("dynamic")", true},
    {"quantization_config.weight_block_size", nullptr, "[32,32]", true},
    {"quantization_config.scale_fmt", "scale_fmt", R"("ue8m0")", true},
    {"quantization_config.expert_dtype", "expert_dtype", R"("fp4")", true},
    {"quantization_config.fmt", nullptr, R"("e4m3")"},
};

Status ReadFixed(const ConfigReader& reader) {
  for (const FixedField& field : kFixedFields) {
    const bool is_required = field.is_required && reader.is_nested();
    SLUICE_TRY(reader.Expect({field.name, field.alias}, field.allowed, is_required));
  }
  return Status::Ok();
}

// A flat file, as inference/config.json, has none of these.
Status ReadTokens(const ConfigReader& reader, Config& config) {
  struct Token {
    const char* name;
    int32_t Config::* field;
    int32_t flat_default;
  };
  constexpr Token kTokens[] = {{"bos_token_id", &Config::bos_token_id, 0},
                               {"eos_token_id", &Config::eos_token_id, 1},
                               {"pad_token_id", &Config::pad_token_id, 2},
                               {"image_token_id", &Config::image_token_id, -1}};
  for (const Token& token : kTokens) {
    const FieldName name = {token.name, nullptr};
    config.*token.field = token.flat_default;
    if (!reader.is_nested() && !reader.Has(name)) continue;
    SLUICE_TRY(const int64_t id, reader.Int(name, {.min = 0, .max = kMaxTokens}));
    config.*token.field = static_cast<int32_t>(id);
  }
  return Status::Ok();
}

Status ReadVision(const ConfigReader& reader, Config& config) {
  struct Field {
    const char* name;
    int32_t VisionConfig::* field;
    int64_t max;
  };
  constexpr Field kFields[] = {
      {"vision_config.num_hidden_layers", &VisionConfig::num_hidden_layers, 1024},
      {"vision_config.hidden_size", &VisionConfig::hidden_size, kMaxSize},
      {"vision_config.num_attention_heads", &VisionConfig::num_attention_heads, 1024},
      {"vision_config.intermediate_size", &VisionConfig::intermediate_size, kMaxSize},
      {"vision_config.patch_size", &VisionConfig::patch_size, 1024},
      {"vision_config.downsample_ratio", &VisionConfig::downsample_ratio, 64},
      {"vision_config.max_image_tokens", &VisionConfig::max_image_tokens, kMaxSize},
  };
  if (!reader.HasObject("vision_config")) return Status::Ok();
  VisionConfig vision;
  for (const Field& field : kFields) {
    SLUICE_TRY(const int64_t value,
               reader.Int({field.name, nullptr}, {.min = 1, .max = field.max}));
    vision.*field.field = static_cast<int32_t>(value);
  }
  SLUICE_TRY(vision.rope_theta, reader.Double({"vision_config.rope_theta", nullptr}, 1.001, 1e12));
  SLUICE_TRY(vision.min_pixels, reader.Int({"vision_config.min_pixels", nullptr},
                                           {.min = 0, .max = int64_t{1} << 40}));
  SLUICE_TRY(reader.Expect({"vision_config.max_wh_ratio", nullptr}, "null", false));
  SLUICE_TRY(
      reader.Expect({"vision_config.model_type", nullptr}, R"("deepseek_v41_vision")", true));
  config.vision = vision;
  return Status::Ok();
}

Status ReadNumbers(const ConfigReader& reader, Config& config) {
  for (const IntField& field : kIntFields) {
    SLUICE_TRY(const int64_t value,
               reader.Int({field.name, field.alias}, {.min = field.min, .max = field.max}));
    config.*field.field = static_cast<int32_t>(value);
  }
  for (const DoubleField& field : kDoubleFields) {
    SLUICE_TRY(config.*field.field, reader.Double({field.name, field.alias}, field.min, field.max));
  }
  for (const ListField& field : kListFields) {
    // At most one entry per layer; what they mean together is for Validate.
    SLUICE_TRY(const std::vector<int64_t> values,
               reader.List({field.name, field.alias}, {.min = 0, .max = 1023}));
    (config.*field.field).assign(values.begin(), values.end());
  }
  SLUICE_TRY(config.engram_num_embeddings,
             reader.List({"engram_num_embeddings", nullptr}, {.min = 1, .max = kMaxEngramRows}));
  SLUICE_TRY(config.engram_vocab_size,
             reader.Int({"engram_vocab_size", nullptr}, {.min = 2, .max = kMaxEngramVocab}));
  // A flat file says it by what it is scaled to.
  const FieldName length = {"max_position_embeddings", nullptr};
  int64_t n_positions = static_cast<int64_t>(
      std::min(config.yarn_factor * config.yarn_original, static_cast<double>(kMaxTokens)));
  if (reader.is_nested() || reader.Has(length)) {
    SLUICE_TRY(n_positions, reader.Int(length, {.min = 1, .max = kMaxTokens}));
  }
  config.max_position_embeddings = static_cast<int32_t>(n_positions);
  return Status::Ok();
}

int32_t LargestNotAbove(const std::vector<int32_t>& ascending, int32_t layer) {
  const auto above = std::upper_bound(ascending.begin(), ascending.end(), layer);
  return above == ascending.begin() ? -1 : *(above - 1);
}

bool Contains(const std::vector<int32_t>& ascending, int32_t layer) {
  return std::binary_search(ascending.begin(), ascending.end(), layer);
}

}  // namespace

Result<Config> Config::Parse(std::string_view text) {
  // { text_config: { rope_scaling: { factor: } } }, and some room for what is not read.
  constexpr int32_t kDepth = 16;
  Result<Json> json =
      Json::Parse(text, {.text_bytes = limits::kMaxModelConfigBytes, .depth = kDepth});
  if (!json) return json.error().AddContext("config.json");
  if (!json->root().is_object()) return Status::Invalid("config.json: must be an object");
  const ConfigReader reader(json->root());
  Config config;
  SLUICE_TRY(ReadFixed(reader));
  SLUICE_TRY(ReadNumbers(reader, config));
  SLUICE_TRY(ReadTokens(reader, config));
  SLUICE_TRY(ReadVision(reader, config));
  SLUICE_TRY(config.Validate());
  return config;
}

int32_t Config::KvSource(int32_t layer) const {
  return ratio(layer) == 0 ? -1 : LargestNotAbove(kv_source_layer_ids, layer);
}

int32_t Config::IndexSource(int32_t layer) const {
  return ratio(layer) == 0 ? -1 : LargestNotAbove(index_source_layer_ids, layer);
}

bool Config::IsKvSource(int32_t layer) const { return Contains(kv_source_layer_ids, layer); }

bool Config::IsIndexSource(int32_t layer) const { return Contains(index_source_layer_ids, layer); }

int32_t Config::EngramIndex(int32_t layer) const {
  const auto at = std::lower_bound(engram_layer_ids.begin(), engram_layer_ids.end(), layer);
  if (at == engram_layer_ids.end() || *at != layer) return -1;
  return static_cast<int32_t>(at - engram_layer_ids.begin());
}

}  // namespace sluice::model::deepseek_v41
