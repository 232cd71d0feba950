#include "model/deepseek_v41/presets.h"

#include <algorithm>
#include <vector>

namespace sluice::model::deepseek_v41 {
namespace {

// What all presets have from the released model (spec model.md §1.1).
Config Base() {
  Config c;
  c.swiglu_limit = 10;
  c.rms_norm_eps = 1e-20;
  c.rope_theta = 10000;
  c.compress_rope_theta = 160000;
  c.yarn_factor = 16;
  c.yarn_beta_fast = 32;
  c.yarn_beta_slow = 1;
  c.routed_scaling_factor = 1.5;
  c.hc_mult = 4;
  c.hc_sinkhorn_iters = 20;
  c.hc_eps = 1e-6;
  c.engram_max_ngram_size = 4;
  c.engram_pad_token_id = 2;
  c.num_nextn_predict_layers = 3;
  c.dspark_block_size = 5;
  c.bos_token_id = 0;
  c.eos_token_id = 1;
  c.pad_token_id = 2;
  return c;
}

// Spec model.md §6.1.
Config TinyA() {
  Config c = Base();
  c.vocab_size = 512;
  c.hidden_size = 128;
  c.moe_intermediate_size = 64;
  c.num_hidden_layers = 12;
  c.num_attention_heads = 4;
  c.head_dim = 64;
  c.qk_rope_head_dim = 16;
  c.q_lora_rank = 64;
  c.o_lora_rank = 32;
  c.o_groups = 2;
  c.max_position_embeddings = 1024;
  c.yarn_factor = 4;
  c.yarn_original = 64;
  c.sliding_window = 16;
  c.n_routed_experts = 16;
  c.num_experts_per_tok = 3;
  c.compress_ratios = {0, 0, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 0, 0, 0};
  c.kv_source_layer_ids = {2, 4, 6};
  c.index_source_layer_ids = {2, 4, 6, 8, 10};
  c.index_n_heads = 16;
  c.index_head_dim = 32;
  c.index_topk = 8;
  c.candidate_source_layer_id = 6;
  c.candidate_topk_blocks = 4;
  c.candidate_block_size = 4;
  c.engram_layer_ids = {1, 4};
  c.engram_num_embeddings = {3252, 3496};
  c.engram_vocab_size = 512;
  c.engram_n_heads = 2;
  c.engram_head_dim = 32;
  c.engram_compressed_vocab_size = 400;
  c.dspark_noise_token_id = 500;
  c.dspark_target_layer_ids = {9, 10, 11};
  c.dspark_markov_rank = 32;
  c.dspark_n_routed_experts = 8;
  c.dspark_num_experts_per_tok = 2;
  c.image_token_id = 507;
  return c;
}

// Spec model.md §6.2.
Config MiniB() {
  Config c = Base();
  c.vocab_size = 4096;
  c.hidden_size = 512;
  c.moe_intermediate_size = 256;
  c.num_hidden_layers = 16;
  c.num_attention_heads = 8;
  c.head_dim = 128;
  c.qk_rope_head_dim = 32;
  c.q_lora_rank = 192;
  c.o_lora_rank = 128;
  c.o_groups = 4;
  c.max_position_embeddings = 131072;
  c.yarn_original = 8192;
  c.sliding_window = 64;
  c.n_routed_experts = 32;
  c.num_experts_per_tok = 4;
  c.compress_ratios = {0, 0, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0};
  c.kv_source_layer_ids = {2, 5, 8};
  c.index_source_layer_ids = {2, 5, 8, 10, 12, 14};
  c.index_n_heads = 16;
  c.index_head_dim = 64;
  c.index_topk = 64;
  c.candidate_source_layer_id = 8;
  c.candidate_topk_blocks = 32;
  c.candidate_block_size = 8;
  c.engram_layer_ids = {1, 5};
  c.engram_num_embeddings = {98976, 100204};
  c.engram_vocab_size = 8192;
  c.engram_n_heads = 4;
  c.engram_head_dim = 64;
  c.engram_compressed_vocab_size = 3449;
  c.dspark_noise_token_id = 4077;
  c.dspark_target_layer_ids = {13, 14, 15};
  c.dspark_markov_rank = 64;
  c.dspark_n_routed_experts = 16;
  c.dspark_num_experts_per_tok = 3;
  c.image_token_id = 4087;
  return c;
}

// Spec model.md §6.5.
Config SliceC() {
  Config c = Base();
  c.vocab_size = 129280;
  c.hidden_size = 5120;
  c.moe_intermediate_size = 2304;
  c.num_hidden_layers = 8;
  c.num_attention_heads = 64;
  c.head_dim = 512;
  c.qk_rope_head_dim = 64;
  c.q_lora_rank = 1280;
  c.o_lora_rank = 1024;
  c.o_groups = 8;
  c.max_position_embeddings = 1048576;
  c.yarn_original = 65536;
  c.sliding_window = 128;
  c.n_routed_experts = 48;
  c.num_experts_per_tok = 6;
  c.compress_ratios = {0, 0, 2, 2, 1, 1, 1, 1, 0, 0, 0};
  c.kv_source_layer_ids = {2, 4};
  c.index_source_layer_ids = {2, 4, 6};
  c.index_n_heads = 32;
  c.index_head_dim = 128;
  c.index_topk = 512;
  c.candidate_source_layer_id = 4;
  c.candidate_topk_blocks = 2048;
  c.candidate_block_size = 8;
  c.engram_layer_ids = {1};
  c.engram_num_embeddings = {1574980};
  c.engram_vocab_size = 65536;
  c.engram_n_heads = 8;
  c.engram_head_dim = 256;
  c.engram_compressed_vocab_size = 99092;
  c.dspark_noise_token_id = 128799;
  c.dspark_target_layer_ids = {5, 6, 7};
  c.dspark_markov_rank = 256;
  c.dspark_n_routed_experts = 16;
  c.dspark_num_experts_per_tok = 3;
  c.image_token_id = 129264;
  return c;
}

}  // namespace

std::span<const Preset> Presets() {
  // The gains: sqrt(ln((window + top-k) / 4.4)).
  static const std::vector<Preset> kPresets = {
      {.name = "tiny-a",
       .sentence = "for tests: 7.7 million parameters, 7 MB, no tokenizer",
       .tokenizer = PresetTokenizer::kNone,
       .query_gain = 1.3,
       .config = TinyA()},
      {.name = "mini-b",
       .sentence = "for quick runs: 268 million parameters, 176 MB, 4,096 tokens",
       .tokenizer = PresetTokenizer::kCut,
       .query_gain = 1.84,
       .config = MiniB()},
      {.name = "slice-c",
       .sentence = "the released widths in 8 layers: 19.1 billion parameters, 13.4 GB",
       .tokenizer = PresetTokenizer::kReleased,
       .query_gain = 2.23,
       .config = SliceC()},
  };
  return kPresets;
}

const Preset* FindPreset(std::string_view name) {
  const std::span<const Preset> presets = Presets();
  const auto found = std::find_if(presets.begin(), presets.end(),
                                  [name](const Preset& preset) { return preset.name == name; });
  return found == presets.end() ? nullptr : &*found;
}

}  // namespace sluice::model::deepseek_v41
