// ConfigText of presets.h: the reverse of Config::Parse.

#include "base/check.h"
#include "base/json_writer.h"
#include "model/deepseek_v41/presets.h"

namespace sluice::model::deepseek_v41 {
namespace {

template <typename T>
void WriteList(JsonWriter& w, std::string_view name, const std::vector<T>& values) {
  w.Key(name).Array();
  for (const T value : values) w.Int(value);
  w.EndArray();
}

void WriteWidths(JsonWriter& w, const Config& c) {
  w.Key("vocab_size").Int(c.vocab_size);
  w.Key("num_hidden_layers").Int(c.num_hidden_layers);
  w.Key("hidden_size").Int(c.hidden_size);
  w.Key("num_attention_heads").Int(c.num_attention_heads);
  w.Key("num_key_value_heads").Int(1);
  w.Key("moe_intermediate_size").Int(c.moe_intermediate_size);
  w.Key("head_dim").Int(c.head_dim);
  w.Key("qk_rope_head_dim").Int(c.qk_rope_head_dim);
  w.Key("q_lora_rank").Int(c.q_lora_rank);
  w.Key("o_lora_rank").Int(c.o_lora_rank);
  w.Key("o_groups").Int(c.o_groups);
  w.Key("hidden_act").String("silu");
  w.Key("swiglu_limit").Double(c.swiglu_limit);
  w.Key("rms_norm_eps").Double(c.rms_norm_eps);
  w.Key("attention_bias").Bool(false);
  w.Key("attention_dropout").Double(0);
  w.Key("initializer_range").Double(0.02);
  w.Key("use_cache").Bool(true);
  w.Key("tie_word_embeddings").Bool(false);
}

void WritePositions(JsonWriter& w, const Config& c) {
  w.Key("max_position_embeddings").Int(c.max_position_embeddings);
  w.Key("rope_theta").Double(c.rope_theta);
  w.Key("compress_rope_theta").Double(c.compress_rope_theta);
  w.Key("rope_scaling").Object();
  w.Key("rope_type").String("yarn");
  w.Key("factor").Double(c.yarn_factor);
  w.Key("beta_fast").Double(c.yarn_beta_fast);
  w.Key("beta_slow").Double(c.yarn_beta_slow);
  w.Key("original_max_position_embeddings").Int(c.yarn_original);
  w.EndObject();
  w.Key("sliding_window").Int(c.sliding_window);
}

void WriteExperts(JsonWriter& w, const Config& c) {
  w.Key("n_routed_experts").Int(c.n_routed_experts);
  w.Key("n_shared_experts").Int(1);
  w.Key("num_experts_per_tok").Int(c.num_experts_per_tok);
  w.Key("scoring_func").String("sqrtsoftplus");
  w.Key("topk_method").String("noaux_tc");
  w.Key("norm_topk_prob").Bool(true);
  w.Key("routed_scaling_factor").Double(c.routed_scaling_factor);
}

void WriteSources(JsonWriter& w, const Config& c) {
  WriteList(w, "compress_ratios", c.compress_ratios);
  WriteList(w, "kv_source_layer_ids", c.kv_source_layer_ids);
  WriteList(w, "index_source_layer_ids", c.index_source_layer_ids);
  w.Key("index_n_heads").Int(c.index_n_heads);
  w.Key("index_head_dim").Int(c.index_head_dim);
  w.Key("index_topk").Int(c.index_topk);
  w.Key("candidate_source_layer_id").Int(c.candidate_source_layer_id);
  w.Key("candidate_topk_blocks").Int(c.candidate_topk_blocks);
  w.Key("candidate_block_size").Int(c.candidate_block_size);
  w.Key("hc_mult").Int(c.hc_mult);
  w.Key("hc_sinkhorn_iters").Int(c.hc_sinkhorn_iters);
  w.Key("hc_eps").Double(c.hc_eps);
}

void WriteEngramAndDraft(JsonWriter& w, const Config& c) {
  WriteList(w, "engram_layer_ids", c.engram_layer_ids);
  WriteList(w, "engram_num_embeddings", c.engram_num_embeddings);
  w.Key("engram_max_ngram_size").Int(c.engram_max_ngram_size);
  w.Key("engram_vocab_size").Int(c.engram_vocab_size);
  w.Key("engram_n_heads").Int(c.engram_n_heads);
  w.Key("engram_head_dim").Int(c.engram_head_dim);
  w.Key("engram_pad_token_id").Int(c.engram_pad_token_id);
  w.Key("engram_compressed_vocab_size").Int(c.engram_compressed_vocab_size);
  w.Key("num_nextn_predict_layers").Int(c.num_nextn_predict_layers);
  w.Key("dspark_block_size").Int(c.dspark_block_size);
  w.Key("dspark_noise_token_id").Int(c.dspark_noise_token_id);
  WriteList(w, "dspark_target_layer_ids", c.dspark_target_layer_ids);
  w.Key("dspark_markov_rank").Int(c.dspark_markov_rank);
  w.Key("dspark_n_routed_experts").Int(c.dspark_n_routed_experts);
  w.Key("dspark_num_experts_per_tok").Int(c.dspark_num_experts_per_tok);
}

void WriteQuantization(JsonWriter& w) {
  w.Key("quantization_config").Object();
  w.Key("quant_method").String("fp8");
  w.Key("activation_scheme").String("dynamic");
  w.Key("weight_block_size").Array().Int(32).Int(32).EndArray();
  w.Key("scale_fmt").String("ue8m0");
  w.Key("expert_dtype").String("fp4");
  w.EndObject();
}

// `compact` for readers: a line for each member, lists of numbers on one. No string in it has
// brackets or commas.
std::string Indented(std::string_view compact) {
  std::string text;
  int n_objects = 0, n_lists = 0;
  const auto break_line = [&text, &n_objects] {
    text += '\n';
    text.append(static_cast<size_t>(2 * n_objects), ' ');
  };
  for (const char c : compact) {
    n_lists += c == '[' ? 1 : c == ']' ? -1 : 0;
    if (c == '}') {
      --n_objects;
      break_line();
    }
    text += c;
    if (c == '{') ++n_objects;
    if (c == '{' || (c == ',' && n_lists == 0)) break_line();
    if (c == ':' || (c == ',' && n_lists > 0)) text += ' ';
  }
  return text + "\n";
}

}  // namespace

std::string ConfigText(const Config& config) {
  SLUICE_CHECK(!config.vision);
  std::string text;
  JsonWriter w(text);
  w.Object();
  w.Key("architectures").Array().String("DeepseekV41ForCausalLM").EndArray();
  w.Key("model_type").String("deepseek_v41");
  w.Key("dtype").String("bfloat16");
  w.Key("bos_token_id").Int(config.bos_token_id);
  w.Key("eos_token_id").Int(config.eos_token_id);
  w.Key("pad_token_id").Int(config.pad_token_id);
  w.Key("image_token_id").Int(config.image_token_id);
  w.Key("text_config").Object();
  w.Key("model_type").String("deepseek_v41_text");
  WriteWidths(w, config);
  WritePositions(w, config);
  WriteExperts(w, config);
  WriteSources(w, config);
  WriteEngramAndDraft(w, config);
  w.EndObject();
  WriteQuantization(w);
  w.EndObject();
  return Indented(text);
}

}  // namespace sluice::model::deepseek_v41
