#include "model/dense/tensor_list.h"

#include <fmt/format.h>

#include <array>

namespace sluice::model::dense {
namespace {

struct Spelling {
  Role role;
  Part part;
  std::string_view hugging_face, gguf;
};

constexpr std::array kOfTheModel = {
    Spelling{Role::kEmbedding, Part::kEmbedding, "model.embed_tokens.weight", "token_embd.weight"},
    Spelling{Role::kFinalNorm, Part::kNorms, "model.norm.weight", "output_norm.weight"},
    Spelling{Role::kHead, Part::kHead, "lm_head.weight", "output.weight"},
};

// Behind "model.layers.N." and "blk.N.".
constexpr std::array kOfALayer = {
    Spelling{Role::kAttentionNorm, Part::kNorms, "input_layernorm.weight", "attn_norm.weight"},
    Spelling{Role::kQuery, Part::kAttention, "self_attn.q_proj.weight", "attn_q.weight"},
    Spelling{Role::kKey, Part::kAttention, "self_attn.k_proj.weight", "attn_k.weight"},
    Spelling{Role::kValue, Part::kAttention, "self_attn.v_proj.weight", "attn_v.weight"},
    Spelling{Role::kQueryBias, Part::kAttention, "self_attn.q_proj.bias", "attn_q.bias"},
    Spelling{Role::kKeyBias, Part::kAttention, "self_attn.k_proj.bias", "attn_k.bias"},
    Spelling{Role::kValueBias, Part::kAttention, "self_attn.v_proj.bias", "attn_v.bias"},
    Spelling{Role::kOutput, Part::kAttention, "self_attn.o_proj.weight", "attn_output.weight"},
    Spelling{Role::kFeedForwardNorm, Part::kNorms, "post_attention_layernorm.weight",
             "ffn_norm.weight"},
    Spelling{Role::kGate, Part::kFeedForward, "mlp.gate_proj.weight", "ffn_gate.weight"},
    Spelling{Role::kUp, Part::kFeedForward, "mlp.up_proj.weight", "ffn_up.weight"},
    Spelling{Role::kDown, Part::kFeedForward, "mlp.down_proj.weight", "ffn_down.weight"},
};

Shape ShapeOf(const Config& c, Role role) {
  switch (role) {
    case Role::kEmbedding:
    case Role::kHead:
      return {c.vocab_size, c.hidden_size};
    case Role::kFinalNorm:
    case Role::kAttentionNorm:
    case Role::kFeedForwardNorm:
      return {c.hidden_size};
    case Role::kQuery:
      return {c.n_query_values(), c.hidden_size};
    case Role::kKey:
    case Role::kValue:
      return {c.n_key_values(), c.hidden_size};
    case Role::kQueryBias:
      return {c.n_query_values()};
    case Role::kKeyBias:
    case Role::kValueBias:
      return {c.n_key_values()};
    case Role::kOutput:
      return {c.hidden_size, c.n_query_values()};
    case Role::kGate:
    case Role::kUp:
      return {c.intermediate_size, c.hidden_size};
    case Role::kDown:
      return {c.hidden_size, c.intermediate_size};
  }
  return {};
}

bool IsThere(const Config& config, Role role) {
  const bool is_bias =
      role == Role::kQueryBias || role == Role::kKeyBias || role == Role::kValueBias;
  if (is_bias) return config.has_qkv_bias;
  return role != Role::kHead || !config.tie_word_embeddings;
}

}  // namespace

std::string_view NameOf(Part part) {
  constexpr std::array<std::string_view, kNumParts> kNames = {"embedding", "output head",
                                                              "attention", "feed-forward", "norms"};
  return kNames[static_cast<size_t>(part)];
}

std::vector<TensorSpec> ListTensors(const Config& config, Naming naming) {
  const bool is_gguf = naming == Naming::kGguf;
  std::vector<TensorSpec> specs;
  const auto add = [&](const Spelling& spelling, std::string_view prefix, int32_t layer) {
    if (!IsThere(config, spelling.role)) return;
    const std::string_view name = is_gguf ? spelling.gguf : spelling.hugging_face;
    specs.push_back({.name = fmt::format("{}{}", prefix, name),
                     .shape = ShapeOf(config, spelling.role),
                     .role = spelling.role,
                     .part = spelling.part,
                     .layer = layer});
  };
  add(kOfTheModel[0], "", -1);
  for (int32_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const std::string prefix = fmt::format("{}.{}.", is_gguf ? "blk" : "model.layers", layer);
    for (const Spelling& spelling : kOfALayer) add(spelling, prefix, layer);
  }
  add(kOfTheModel[1], "", -1);
  add(kOfTheModel[2], "", -1);
  return specs;
}

}  // namespace sluice::model::dense
