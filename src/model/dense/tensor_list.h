// Every tensor of a dense model, for a Config, in both spellings: the one source for the loader,
// for `sluice inspect` and for whoever writes a checkpoint. Pure functions.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/checkpoint/safetensors.h"
#include "model/dense/config.h"

namespace sluice::model::dense {

// kHuggingFace: "model.layers.0.self_attn.q_proj.weight"; kGguf: "blk.0.attn_q.weight".
enum class Naming : uint8_t { kHuggingFace, kGguf };

enum class Role : uint8_t {
  kEmbedding,  // [vocab, D]
  kHead,       // [vocab, D], unless it is the embedding
  kFinalNorm,  // [D]
  kAttentionNorm,
  kQuery,  // [H * head_dim, D]
  kKey,    // [KV * head_dim, D]
  kValue,
  kQueryBias,
  kKeyBias,
  kValueBias,
  kOutput,  // [D, H * head_dim]
  kFeedForwardNorm,
  kGate,  // [F, D]
  kUp,
  kDown,  // [D, F]
};

enum class Part : uint8_t { kEmbedding, kHead, kAttention, kFeedForward, kNorms };
inline constexpr int32_t kNumParts = 5;
std::string_view NameOf(Part part);

struct TensorSpec {
  std::string name;
  Shape shape;  // a matrix is [n_out, n_in]; one dimension: a vector, read as float32
  Role role = Role::kEmbedding;
  Part part = Part::kEmbedding;
  int32_t layer = -1;  // -1: none
};

// In the order in which the model uses them.
std::vector<TensorSpec> ListTensors(const Config& config, Naming naming);

}  // namespace sluice::model::dense
