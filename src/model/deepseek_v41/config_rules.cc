// Config::Validate: what fields must be to each other (spec model.md §6; read_config of the
// reference). Ranges of single fields are checked while reading, in config.cc.

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "base/limits.h"
#include "model/deepseek_v41/config.h"

namespace sluice::model::deepseek_v41 {
namespace {

Status Refuse(std::string field, std::string_view what) {
  std::string message = fmt::format("config.json: {} {}", field, what);
  return Status::InvalidField(std::move(field), std::move(message));
}

// Weights have a scale for every 32 inputs; those of both formats are read in whole groups.
Status CheckGroups(const Config& c) {
  struct Width {
    const char* field;
    int64_t n;
  };
  const Width widths[] = {
      {"hidden_size", c.hidden_size},
      {"moe_intermediate_size", c.moe_intermediate_size},
      {"q_lora_rank", c.q_lora_rank},
      {"head_dim", c.head_dim},
      {"index_head_dim", c.index_head_dim},
      {"engram_head_dim", c.engram_head_dim},
      // Groups begin at a row of scales of wo_a.
      {"o_lora_rank", c.o_lora_rank},
  };
  for (const Width& width : widths) {
    if (width.n % 32 != 0) {
      return Refuse(width.field, fmt::format("is {}; it must be a multiple of 32", width.n));
    }
  }
  if (c.num_attention_heads % c.o_groups != 0 || c.n_group_inputs() % 32 != 0) {
    return Refuse("o_groups",
                  fmt::format("is {}; it must divide num_attention_heads {} into groups whose "
                              "values are a multiple of 32",
                              c.o_groups, c.num_attention_heads));
  }
  const int32_t n_rotary_max = std::min(c.head_dim, c.index_head_dim);
  if (c.qk_rope_head_dim % 2 != 0 || c.qk_rope_head_dim > n_rotary_max) {
    return Refuse("qk_rope_head_dim",
                  fmt::format("is {}; it must be even and at most {}, the smaller of head_dim and "
                              "index_head_dim",
                              c.qk_rope_head_dim, n_rotary_max));
  }
  return Status::Ok();
}

// Ids of layers of the backbone, ascending.
Status CheckLayerIds(const Config& c, const char* field, const std::vector<int32_t>& ids) {
  const bool is_ascending =
      std::adjacent_find(ids.begin(), ids.end(), std::greater_equal<>()) == ids.end();
  const bool is_inside = ids.empty() || (ids.front() >= 0 && ids.back() < c.num_hidden_layers);
  if (is_ascending && is_inside) return Status::Ok();
  return Refuse(field, fmt::format("is [{}]; it must ascend and name layers below {}",
                                   fmt::join(ids, ", "), c.num_hidden_layers));
}

Status CheckSources(const Config& c) {
  SLUICE_TRY(CheckLayerIds(c, "kv_source_layer_ids", c.kv_source_layer_ids));
  SLUICE_TRY(CheckLayerIds(c, "index_source_layer_ids", c.index_source_layer_ids));
  if (c.kv_source_layer_ids.empty()) {
    return Refuse("kv_source_layer_ids", "is []; it must name the first decoder layer");
  }
  for (int32_t source : c.kv_source_layer_ids) {
    if (!c.IsIndexSource(source)) {
      return Refuse("index_source_layer_ids",
                    fmt::format("lacks {}, which is a KV source", source));
    }
  }
  for (int32_t source : c.index_source_layer_ids) {
    if (c.ratio(source) == 0) {
      return Refuse("index_source_layer_ids",
                    fmt::format("names layer {}, whose compress_ratio is 0", source));
    }
  }
  if (c.candidate_source_layer_id != c.kv_source_layer_ids.back()) {
    return Refuse("candidate_source_layer_id",
                  fmt::format("is {}; it must be {}, the last of kv_source_layer_ids",
                              c.candidate_source_layer_id, c.kv_source_layer_ids.back()));
  }
  // Else entries that are no candidates would be chosen to fill the list (spec model.md §3.4).
  const int64_t n_candidates = int64_t{c.candidate_topk_blocks - 1} * c.candidate_block_size + 1;
  if (n_candidates < c.index_topk) {
    return Refuse(
        "candidate_topk_blocks",
        fmt::format("is {}: with candidate_block_size {} the kept blocks have at least "
                    "{} entries; index_topk {} must not be more",
                    c.candidate_topk_blocks, c.candidate_block_size, n_candidates, c.index_topk));
  }
  return Status::Ok();
}

Status CheckRatios(const Config& c) {
  const auto n_layers = static_cast<size_t>(c.num_hidden_layers + c.num_nextn_predict_layers);
  if (c.compress_ratios.size() != n_layers) {
    return Refuse(
        "compress_ratios",
        fmt::format("has {} entries; it must have one for each of {} layers and {} "
                    "draft stages",
                    c.compress_ratios.size(), c.num_hidden_layers, c.num_nextn_predict_layers));
  }
  for (size_t i = 0; i < n_layers; ++i) {
    const bool is_draft = i >= static_cast<size_t>(c.num_hidden_layers);
    const int32_t allowed_max = is_draft ? 0 : 2;
    if (c.compress_ratios[i] <= allowed_max) continue;
    return Refuse(
        "compress_ratios",
        fmt::format("has {} at entry {}; {} allowed", c.compress_ratios[i], i,
                    is_draft ? "a draft stage has ratio 0, nothing else is" : "0, 1 and 2 are"));
  }
  return Status::Ok();
}

// A layer reads the entries of its source, so both must have as many.
Status CheckConsumers(const Config& c) {
  for (int32_t layer = 0; layer < c.num_hidden_layers; ++layer) {
    if (c.ratio(layer) == 0) continue;
    const int32_t source = c.KvSource(layer);
    if (source < 0) {
      return Refuse("kv_source_layer_ids",
                    fmt::format("has no source for layer {}, whose compress_ratio is {}", layer,
                                c.ratio(layer)));
    }
    if (c.ratio(source) != c.ratio(layer)) {
      return Refuse("compress_ratios",
                    fmt::format("is {} for layer {} and {} for its KV source {}; they must be "
                                "equal",
                                c.ratio(layer), layer, c.ratio(source), source));
    }
  }
  return Status::Ok();
}

Status CheckExperts(const Config& c) {
  if (c.num_experts_per_tok > c.n_routed_experts) {
    return Refuse("num_experts_per_tok", fmt::format("is {}; there are {} n_routed_experts",
                                                     c.num_experts_per_tok, c.n_routed_experts));
  }
  if (c.dspark_num_experts_per_tok > c.dspark_n_routed_experts) {
    return Refuse("dspark_num_experts_per_tok",
                  fmt::format("is {}; there are {} dspark_n_routed_experts",
                              c.dspark_num_experts_per_tok, c.dspark_n_routed_experts));
  }
  // Each has three matrices with their scales. Refused here, before the list of tensors is made.
  const int64_t n_tensors = 6 * (int64_t{c.num_hidden_layers} * c.n_routed_experts +
                                 int64_t{c.num_nextn_predict_layers} * c.dspark_n_routed_experts);
  if (n_tensors > limits::kMaxTensors) {
    return Refuse("n_routed_experts",
                  fmt::format("is {}: the experts of all layers have {} "
                              "tensors, at most {} are allowed",
                              c.n_routed_experts, n_tensors, limits::kMaxTensors));
  }
  return Status::Ok();
}

Status CheckEngram(const Config& c) {
  SLUICE_TRY(CheckLayerIds(c, "engram_layer_ids", c.engram_layer_ids));
  if (c.engram_num_embeddings.size() != c.engram_layer_ids.size()) {
    return Refuse("engram_num_embeddings",
                  fmt::format("has {} entries; it must have one for each of {} engram_layer_ids",
                              c.engram_num_embeddings.size(), c.engram_layer_ids.size()));
  }
  // Each has a prime of its own, which must be found before the tables can be compared.
  constexpr size_t kMaxLookups = 4'096;
  const size_t n_lookups = c.engram_layer_ids.size() * static_cast<size_t>(c.n_lookups());
  if (n_lookups > kMaxLookups) {
    return Refuse("engram_n_heads",
                  fmt::format("is {}: {} engram_layer_ids and engram_max_ngram_size {} make {} "
                              "look-ups a token, at most {} are allowed",
                              c.engram_n_heads, c.engram_layer_ids.size(), c.engram_max_ngram_size,
                              n_lookups, kMaxLookups));
  }
  if (c.engram_compressed_vocab_size > c.vocab_size) {
    return Refuse(
        "engram_compressed_vocab_size",
        fmt::format("is {}; there are {} tokens", c.engram_compressed_vocab_size, c.vocab_size));
  }
  return Status::Ok();
}

Status CheckDraft(const Config& c) {
  if (c.num_nextn_predict_layers == 0) return Status::Ok();
  SLUICE_TRY(CheckLayerIds(c, "dspark_target_layer_ids", c.dspark_target_layer_ids));
  if (c.dspark_target_layer_ids.empty()) {
    return Refuse("dspark_target_layer_ids", "is []; the draft reads at least one layer");
  }
  return Status::Ok();
}

Status CheckTokens(const Config& c) {
  struct Token {
    const char* field;
    int32_t id;
  };
  for (const Token& token :
       {Token{"bos_token_id", c.bos_token_id}, Token{"eos_token_id", c.eos_token_id},
        Token{"pad_token_id", c.pad_token_id}, Token{"image_token_id", c.image_token_id},
        Token{"engram_pad_token_id", c.engram_pad_token_id},
        Token{"dspark_noise_token_id", c.dspark_noise_token_id}}) {
    if (token.id < c.vocab_size) continue;
    return Refuse(token.field,
                  fmt::format("is {}; it must be below vocab_size {}", token.id, c.vocab_size));
  }
  return Status::Ok();
}

}  // namespace

Status Config::Validate() const {
  SLUICE_TRY(CheckGroups(*this));
  SLUICE_TRY(CheckRatios(*this));
  SLUICE_TRY(CheckSources(*this));
  SLUICE_TRY(CheckConsumers(*this));
  SLUICE_TRY(CheckExperts(*this));
  SLUICE_TRY(CheckEngram(*this));
  SLUICE_TRY(CheckDraft(*this));
  return CheckTokens(*this);
}

}  // namespace sluice::model::deepseek_v41
