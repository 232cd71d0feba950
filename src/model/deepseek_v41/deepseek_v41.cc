#include "model/deepseek_v41/deepseek_v41.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "kernels/moe_ffn/op.h"
#include "kernels/rotary/op.h"
#include "kernels/top_k/op.h"
#include "model/batch_check.h"
#include "model/deepseek_v41/step_impl.h"

namespace sluice::model::deepseek_v41 {
namespace {

// Room for index scores: as many rows at a time as fit, but enough to keep a team busy.
constexpr int64_t kScoreBytes = int64_t{64} << 20;
constexpr int64_t kLeastScoreRows = 8;

Tables MakeTables(const Config& c, std::vector<int32_t> token_classes) {
  const int32_t pad_class =
      token_classes.empty() ? 0 : token_classes[static_cast<size_t>(c.engram_pad_token_id)];
  return {.plain_frequencies =
              ops::rotary::Frequencies({.n_rotated = c.qk_rope_head_dim, .base = c.rope_theta}),
          .yarn_frequencies = ops::rotary::Frequencies({.n_rotated = c.qk_rope_head_dim,
                                                        .base = c.compress_rope_theta,
                                                        .n_original = c.yarn_original,
                                                        .factor = c.yarn_factor,
                                                        .beta_fast = c.yarn_beta_fast,
                                                        .beta_slow = c.yarn_beta_slow}),
          .token_classes = std::move(token_classes),
          .engram = EngramHash(HashParamsOf(c)),
          .pad_class = pad_class};
}

ModelInfo DescribeModel(const Config& c, const StateIndex& state) {
  return {.n_vocab = c.vocab_size,
          .n_context = c.max_position_embeddings,
          .hidden_size = c.hidden_size,
          .window = c.sliding_window,
          .n_slack = RingRows(c) - c.sliding_window,
          .first_decoder_layer = c.decoder_start(),
          .n_layers = c.num_hidden_layers,
          .n_history = c.engram_max_ngram_size - 1,
          .n_tap_values = c.n_taps() * c.hidden_size,
          .n_draft = c.dspark_block_size,
          // A row of encoder layer l looks back l * (window - 1) tokens through the windows.
          .n_exact_replay = c.decoder_start() * (c.sliding_window - 1),
          .eos = TokenId(c.eos_token_id),
          .layout = state.layout};
}

}  // namespace

EngramHashParams HashParamsOf(const Config& config) {
  return {.layer_ids = config.engram_layer_ids,
          .max_ngram = config.engram_max_ngram_size,
          .n_heads = config.engram_n_heads,
          .vocab_size = config.engram_vocab_size,
          .n_classes = config.engram_compressed_vocab_size};
}

Status CheckEngramRows(const Config& config) {
  const EngramHash hash(HashParamsOf(config));
  for (size_t i = 0; i < hash.layers.size(); ++i) {
    if (hash.layers[i].n_rows == config.engram_num_embeddings[i]) continue;
    return Status::InvalidField(
        "engram_num_embeddings",
        fmt::format("config.json: engram_num_embeddings[{}] is {}; engram_vocab_size {} and {} "
                    "heads give {} rows",
                    i, config.engram_num_embeddings[i], config.engram_vocab_size,
                    config.engram_n_heads, hash.layers[i].n_rows));
  }
  return Status::Ok();
}

DeepseekV41::DeepseekV41(Params params)
    : config_(std::move(params.config)),
      weights_(std::move(params.weights)),
      packed_(std::move(params.packed)),
      state_(config_),
      tables_(MakeTables(config_, std::move(params.token_classes))),
      info_(DescribeModel(config_, state_)) {}

int64_t DeepseekV41::WorkspaceBytes(const BatchLimits& limits) const {
  Arena counting;
  const Scratch scratch(counting, config_, limits);
  return counting.n_taken();
}

Scratch::Scratch(Arena& arena, const Config& c, const BatchLimits& limits) {
  const int64_t n = limits.n_rows;
  const int64_t D = c.hidden_size;
  const int64_t S = c.hc_mult;
  row = arena.Take<int32_t>(n);
  position = arena.Take<int32_t>(n);
  seq = arena.Take<int32_t>(n);
  is_image = arena.Take<uint8_t>(n);
  first = arena.Take<int32_t>(limits.n_seqs);
  n_of_seq = arena.Take<int32_t>(limits.n_seqs);

  streams = arena.Take<Bf16>(n * S * D);
  mix = arena.Take<float>(n * S);
  for (auto* span : {&pre, &post, &ffn_pre, &ffn_post}) *span = arena.Take<float>(n * S);
  comb = arena.Take<float>(n * S * S);
  ffn_comb = arena.Take<float>(n * S * S);
  projection = arena.Take<float>(n * c.n_hyper_values());
  u = arena.Take<Bf16>(n * D);
  const int64_t n_engram = int64_t{c.n_lookups()} * c.engram_head_dim;
  const int64_t widest =
      std::max({D, int64_t{c.n_query_values()}, int64_t{c.q_lora_rank},
                int64_t{c.n_group_outputs()}, n_engram, int64_t{c.n_taps()} * D});
  quantized = arena.Take<Bf16>(n * widest);
  y = arena.Take<Bf16>(n * D);
  LayAttention(arena, c, n);
  LaySelection(arena, c, limits);

  const int32_t n_experts = std::max(c.n_routed_experts, c.dspark_n_routed_experts);
  const int32_t n_chosen = std::max(c.num_experts_per_tok, c.dspark_num_experts_per_tok);
  router_logits = arena.Take<float>(n * n_experts);
  experts = arena.Take<int32_t>(n * n_chosen);
  expert_weights = arena.Take<float>(n * n_chosen);
  moe = arena.Take<std::byte>(
      ops::moe_ffn::ScratchBytes(n, c.hidden_size, c.moe_intermediate_size, n_chosen, n_experts));
  if (!c.engram_layer_ids.empty()) {
    engram_rows = arena.Take<int64_t>(n * c.n_lookups());
    engram_values = arena.Take<Bf16>(n * n_engram);
    engram_kv = arena.Take<Bf16>(n * (S + 1) * D);
    engram_gate = arena.Take<float>(n * S);
  }
  hidden = arena.Take<Bf16>(limits.n_logits * D);
}

void Scratch::LayAttention(Arena& arena, const Config& c, int64_t n) {
  const int64_t d = c.head_dim;
  for (auto* span : {&cos, &sin, &entry_cos, &entry_sin}) {
    *span = arena.Take<float>(n * c.n_rotary_pairs());
  }
  entry_position = arena.Take<int32_t>(n);
  qr = arena.Take<Bf16>(n * c.q_lora_rank);
  q = arena.Take<Bf16>(n * c.n_query_values());
  o = arena.Take<Bf16>(n * c.n_query_values());
  kv = arena.Take<Bf16>(n * d);
  window_rows = arena.Take<uint8_t>(n * RowBytes(GroupFormat::kFp8, c.head_dim));
  attention_rows = arena.Take<ops::sparse_attention::Row>(n);
  draft_rows = arena.Take<uint8_t>(int64_t{c.sliding_window + c.dspark_block_size} *
                                   RowBytes(GroupFormat::kFp8, c.head_dim));
  z = arena.Take<Bf16>(n * c.n_group_outputs());

  value = arena.Take<float>(n * d);
  gate = arena.Take<float>(n * d);
  pairs = arena.Take<ops::compress_pair::Pair>(n);
  entry_row = arena.Take<int32_t>(n);
  latent = arena.Take<Bf16>(n * d);
  key = arena.Take<Bf16>(n * c.index_head_dim);
  entry_rows = arena.Take<uint8_t>(n * RowBytes(GroupFormat::kFp4Nv, c.head_dim));
  key_rows = arena.Take<uint8_t>(n * RowBytes(GroupFormat::kFp4Mx, c.index_head_dim));
}

void Scratch::LaySelection(Arena& arena, const Config& c, const BatchLimits& limits) {
  const int64_t n = limits.n_rows;
  // Ratio 1 has the most entries: one per position.
  score_stride = std::max(1, limits.n_context);
  const int64_t fits = kScoreBytes / (score_stride * int64_t{sizeof(float)});
  n_score_rows = std::clamp(fits, int64_t{1}, std::max(int64_t{1}, n));
  n_score_rows = std::max(n_score_rows, std::min(kLeastScoreRows, n));
  iq = arena.Take<Bf16>(n * c.index_n_heads * c.index_head_dim);
  index_weights = arena.Take<Bf16>(n * c.index_n_heads);
  scores = arena.Take<float>(n_score_rows * score_stride);
  score_rows = arena.Take<ops::index_score::Row>(n_score_rows);
  n_visible = arena.Take<int64_t>(n_score_rows);
  top_k = arena.Take<int32_t>(n_score_rows * score_stride);
  chosen = arena.Take<int32_t>(n * c.index_topk);
  candidates = arena.Take<int32_t>(n * c.candidate_topk_blocks);
}

Status DeepseekV41::Check(const StepBatch& batch, const BatchLimits& limits) const {
  return CheckBatch(info_, batch, limits);
}

}  // namespace sluice::model::deepseek_v41
