// Config: the shape of a DeepSeek-V4.1 model, read from config.json (spec model.md §1). Field names
// are those of text_config in the Hugging Face form; rope_scaling is flattened to yarn_*.
//
// Plain value. A Config that Parse returned has passed Validate: every size is positive and
// bounded, and every value is one that the forward pass implements. Nobody checks it again.

#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace sluice::model::deepseek_v41 {

// Known, so that the tensors of the image encoder can be named and counted; not implemented.
struct VisionConfig {
  int32_t num_hidden_layers = 0;
  int32_t hidden_size = 0;
  int32_t num_attention_heads = 0;
  int32_t intermediate_size = 0;
  int32_t patch_size = 0;
  double rope_theta = 0;
  int32_t downsample_ratio = 0;
  int32_t max_image_tokens = 0;
  int64_t min_pixels = 0;

  static constexpr int32_t kChannels = 3;
  int32_t patch_values() const { return kChannels * patch_size * patch_size; }
};

struct Config {
  int32_t vocab_size = 0;
  int32_t hidden_size = 0;
  int32_t moe_intermediate_size = 0;
  int32_t num_hidden_layers = 0;
  int32_t num_attention_heads = 0;
  int32_t head_dim = 0;
  int32_t qk_rope_head_dim = 0;
  int32_t q_lora_rank = 0;
  int32_t o_lora_rank = 0;
  int32_t o_groups = 0;
  double swiglu_limit = 0;  // 0: no clamp
  double rms_norm_eps = 0;
  int32_t max_position_embeddings = 0;

  double rope_theta = 0;           // layers of ratio 0
  double compress_rope_theta = 0;  // all others, with YaRN
  double yarn_factor = 0;
  double yarn_beta_fast = 0;
  double yarn_beta_slow = 0;
  int32_t yarn_original = 0;  // original_max_position_embeddings
  int32_t sliding_window = 0;

  int32_t n_routed_experts = 0;
  int32_t num_experts_per_tok = 0;
  double routed_scaling_factor = 0;

  std::vector<int32_t> compress_ratios;  // [num_hidden_layers + num_nextn_predict_layers]; 0, 1, 2
  std::vector<int32_t> kv_source_layer_ids;     // ascending
  std::vector<int32_t> index_source_layer_ids;  // ascending, among them all KV sources
  int32_t index_n_heads = 0;
  int32_t index_head_dim = 0;
  int32_t index_topk = 0;
  int32_t candidate_source_layer_id = 0;  // the last KV source
  int32_t candidate_topk_blocks = 0;
  int32_t candidate_block_size = 0;

  int32_t hc_mult = 0;
  int32_t hc_sinkhorn_iters = 0;
  double hc_eps = 0;

  std::vector<int32_t> engram_layer_ids;       // ascending; may be empty
  std::vector<int64_t> engram_num_embeddings;  // rows of each table
  int32_t engram_max_ngram_size = 0;
  int64_t engram_vocab_size = 0;  // where the search for primes begins
  int32_t engram_n_heads = 0;
  int32_t engram_head_dim = 0;
  int32_t engram_pad_token_id = 0;
  int32_t engram_compressed_vocab_size = 0;  // classes of the token map

  int32_t num_nextn_predict_layers = 0;  // stages of the draft; 0: no draft
  int32_t dspark_block_size = 0;
  int32_t dspark_noise_token_id = 0;
  std::vector<int32_t> dspark_target_layer_ids;
  int32_t dspark_markov_rank = 0;
  int32_t dspark_n_routed_experts = 0;
  int32_t dspark_num_experts_per_tok = 0;

  int32_t bos_token_id = 0;
  int32_t eos_token_id = 0;
  int32_t pad_token_id = 0;
  int32_t image_token_id = 0;

  std::optional<VisionConfig> vision;

  // The text of config.json in either spelling: nested as Hugging Face writes it, or flat with the
  // names of inference/config.json. kInvalidArgument or kUnsupported, naming the field, its value
  // and what is allowed: for what is missing, has the wrong type, disagrees with its other
  // spelling, or is not implemented. Unknown fields do not matter.
  static Result<Config> Parse(std::string_view json);

  // Constraints between fields (spec model.md §6): what would have no meaning or no kernel.
  Status Validate() const;

  // Layer whose compressed entries `layer` reads: the largest source not above it; -1 at ratio 0.
  int32_t KvSource(int32_t layer) const;
  // Layer whose top-k list `layer` uses; -1 at ratio 0.
  int32_t IndexSource(int32_t layer) const;
  bool IsKvSource(int32_t layer) const;
  bool IsIndexSource(int32_t layer) const;
  // Index into engram_layer_ids, or -1.
  int32_t EngramIndex(int32_t layer) const;
  int32_t ratio(int32_t layer) const { return compress_ratios[static_cast<size_t>(layer)]; }

  // First decoder layer: the last KV source, which is also the candidate source.
  int32_t decoder_start() const { return candidate_source_layer_id; }
  int32_t n_rotary_pairs() const { return qk_rope_head_dim / 2; }
  // Outputs of the query projection, and those of one group of the output projection.
  int32_t n_query_values() const { return num_attention_heads * head_dim; }
  int32_t n_group_inputs() const { return n_query_values() / o_groups; }
  int32_t n_group_outputs() const { return o_groups * o_lora_rank; }
  // Coefficients of a hyper-connection site: pre and post of each stream, and the square comb.
  int32_t n_hyper_values() const { return (2 + hc_mult) * hc_mult; }
  // Rows looked up per token and Engram layer: heads of each order from 2 up.
  int32_t n_lookups() const { return (engram_max_ngram_size - 1) * engram_n_heads; }
  int32_t n_taps() const { return static_cast<int32_t>(dspark_target_layer_ids.size()); }
};

}  // namespace sluice::model::deepseek_v41
