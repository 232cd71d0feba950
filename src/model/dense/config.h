// Config: the shape of a Llama-style decoder (RMS norm, rotary positions, grouped-query attention,
// SwiGLU), read from config.json or from the metadata of a GGUF file. Field names are those of
// config.json.
//
// Plain value. A Config that was read is valid: every size is positive and bounded, and every value
// is one that the forward pass implements. Nobody checks it again.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "kernels/rotary/op.h"
#include "model/checkpoint/gguf.h"

namespace sluice::model::dense {

// What general.architecture of a GGUF file and model_type of config.json may be.
inline constexpr std::string_view kArchitectures[] = {"llama", "qwen2"};

struct Config {
  std::string architecture;
  int32_t vocab_size = 0;
  int32_t hidden_size = 0;
  int32_t intermediate_size = 0;
  int32_t num_hidden_layers = 0;
  int32_t num_attention_heads = 0;
  int32_t num_key_value_heads = 0;
  int32_t head_dim = 0;
  int32_t max_position_embeddings = 0;
  double rms_norm_eps = 0;
  double rope_theta = 0;
  bool tie_word_embeddings = false;  // the head is the embedding
  bool has_qkv_bias = false;
  // GGUF files of architecture llama have the rows of q and k in another order, so that neighbours
  // turn together; all others turn halves.
  ops::rotary::Pairing pairing = ops::rotary::Pairing::kHalves;
  int32_t bos_token_id = -1;  // -1: none
  int32_t eos_token_id = -1;

  // kInvalidArgument or kUnsupported, naming the field or key, its value and what is allowed: for
  // what is missing, has the wrong type or range, or is not implemented. Unknown fields do not
  // matter.
  static Result<Config> Parse(std::string_view json);
  static Result<Config> FromGguf(const GgufFile& file);

  int32_t n_query_values() const { return num_attention_heads * head_dim; }
  int32_t n_key_values() const { return num_key_value_heads * head_dim; }
  // All of it in one line: for the revision of weights.
  std::string Text() const;
};

// Rules between fields, for readers and for whoever makes one up. Errors name the fields.
Status Validate(const Config& config);

}  // namespace sluice::model::dense
