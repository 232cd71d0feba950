#include "model/deepseek_v41/draft.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "kernels/linear/op.h"
#include "kernels/sparse_attention/op.h"
#include "model/deepseek_v41/step_impl.h"

namespace sluice::model::deepseek_v41 {
namespace {

// Largest value, ties to the lowest index.
int32_t ArgMax(std::span<const float> values) {
  return static_cast<int32_t>(std::max_element(values.begin(), values.end()) - values.begin());
}

}  // namespace

// The rows of one block: the anchor, then noise tokens; they see the whole ring and each other.
void Step::RunDraftStage(int32_t stage, const DraftRequest& request) {
  const LayerWeights& weights = w_.draft->stages[static_cast<size_t>(stage)];
  Collapse(s_.mix.data(), weights.attn_norm, s_.u.data());
  Mix(weights.hc_attn, {s_.pre.data(), s_.post.data(), s_.comb.data()});
  TurnAngles(model_.tables().plain_frequencies, s_.position.first(static_cast<size_t>(n_rows_)),
             s_.cos, s_.sin);
  Query(weights.attn);
  Window(-1, weights.attn);
  AttendToDraft(stage, request, weights.attn);
  Output(weights.attn);
  Expand(s_.y.data(), s_.post.data(), s_.comb.data());

  Mix(weights.hc_ffn, {s_.ffn_pre.data(), s_.ffn_post.data(), s_.ffn_comb.data()});
  Collapse(s_.pre.data(), weights.ffn_norm, s_.u.data());
  Moe(-1, weights.ffn, c_.dspark_num_experts_per_tok);
  Expand(s_.y.data(), s_.ffn_post.data(), s_.ffn_comb.data());
  std::copy_n(s_.ffn_pre.begin(), n_rows_ * c_.hc_mult, s_.mix.begin());
}

// Columns: the ring's rows by their place in it, then the block's own. To the operator this is a
// window that holds them all.
void Step::AttendToDraft(int32_t stage,
                         const DraftRequest& request,
                         const AttentionWeights& weights) {
  const auto row_bytes = static_cast<size_t>(RowBytes(GroupFormat::kFp8, c_.head_dim));
  const int32_t window = c_.sliding_window;
  const uint8_t* ring =
      workspace_.memory.Slot(state_.drafts[static_cast<size_t>(stage)], request.slot).data();
  const int32_t oldest = std::max(request.begin, request.length - window);
  int32_t n_keys = 0;
  const auto add = [&](const uint8_t* row) {
    std::memcpy(s_.draft_rows.data() + static_cast<size_t>(n_keys) * row_bytes, row, row_bytes);
    ++n_keys;
  };
  for (int32_t place = 0; place < window; ++place) {
    // The newest position with this place.
    const int32_t newest = request.length - 1;
    const int32_t pos = newest - ((newest - place) % window + window) % window;
    if (pos >= oldest) add(ring + static_cast<size_t>(place) * row_bytes);
  }
  for (int64_t row = 0; row < n_rows_; ++row) {
    add(s_.window_rows.data() + static_cast<size_t>(row) * row_bytes);
  }
  for (int64_t row = 0; row < n_rows_; ++row) {
    s_.attention_rows[static_cast<size_t>(row)] = {.position = n_keys - 1,
                                                   .ring = nullptr,
                                                   .ring_rows = 1,
                                                   .step_rows = s_.draft_rows.data(),
                                                   .step_begin = 0,
                                                   .window_begin = 0};
  }
  ops::sparse_attention::Run({.q = s_.q.data(),
                              .rows = s_.attention_rows.data(),
                              .n_rows = n_rows_,
                              .n_heads = c_.num_attention_heads,
                              .head_dim = c_.head_dim,
                              .n_window = window + c_.dspark_block_size,
                              .n_chosen_max = 0,
                              .sink = weights.sink,
                              .scale = AttentionScale(),
                              .out = s_.o.data()},
                             stream_);
}

// The head is shared with the backbone; a bias that depends on the token before makes the block
// one choice after the other.
void Step::HeadOfDraft(const DraftRequest& request, const DraftResult& result) {
  const DraftWeights& weights = *w_.draft;
  const int64_t n_vocab = c_.vocab_size;
  const auto D = static_cast<size_t>(c_.hidden_size);
  CollapseOnly(s_.mix.data(), result.hidden.data());
  std::copy(result.hidden.begin(), result.hidden.end(), s_.u.begin());
  Norm(s_.u.data(), weights.norm, n_rows_, c_.hidden_size);
  LinearF32(s_.u.data(), w_.head, n_rows_, result.base_logits.data());

  const auto rank = static_cast<size_t>(c_.dspark_markov_rank);
  std::vector<Bf16> features(D + rank);
  int32_t before = request.anchor.value;
  for (int64_t row = 0; row < n_rows_; ++row) {
    const Bf16* embedding = static_cast<const Bf16*>(weights.markov_embed.data) +
                            int64_t{before} * c_.dspark_markov_rank;
    const auto logits =
        result.logits.subspan(static_cast<size_t>(row * n_vocab), static_cast<size_t>(n_vocab));
    LinearF32(embedding, weights.markov_head, 1, logits.data());
    for (int64_t i = 0; i < n_vocab; ++i) {
      logits[static_cast<size_t>(i)] += result.base_logits[static_cast<size_t>(row * n_vocab + i)];
    }
    before = ArgMax(logits);
    result.tokens[static_cast<size_t>(row)] = before;

    std::copy_n(result.hidden.begin() + row * c_.hidden_size, D, features.begin());
    std::copy_n(embedding, rank, features.begin() + static_cast<int64_t>(D));
    LinearF32(features.data(), weights.confidence, 1,
              result.confidence.data() + static_cast<size_t>(row));
  }
}

void Step::Absorb(const TapRows& rows) {
  const DraftWeights& weights = *w_.draft;
  const auto row_bytes = static_cast<size_t>(RowBytes(GroupFormat::kFp8, c_.head_dim));
  Linear(rows.taps, weights.main_proj, n_rows_, s_.u.data());
  Norm(s_.u.data(), weights.main_norm, n_rows_, c_.hidden_size);
  TurnAngles(model_.tables().plain_frequencies, s_.position.first(static_cast<size_t>(n_rows_)),
             s_.cos, s_.sin);
  for (size_t stage = 0; stage < weights.stages.size(); ++stage) {
    Window(-1, weights.stages[stage].attn);
    uint8_t* ring = workspace_.memory.Slot(state_.drafts[stage], rows.slot).data();
    for (int64_t row = 0; row < n_rows_; ++row) {
      const auto place = static_cast<size_t>((rows.first_pos + row) % c_.sliding_window);
      std::memcpy(ring + place * row_bytes,
                  s_.window_rows.data() + static_cast<size_t>(row) * row_bytes, row_bytes);
    }
  }
}

namespace {

// A step of rows at consecutive positions of one sequence.
struct OneSequence {
  OneSequence(SlotId slot, int32_t first_pos, std::span<const TokenId> tokens) {
    for (size_t i = 0; i < tokens.size(); ++i) {
      rows.push_back({.token = tokens[i], .pos = first_pos + static_cast<int32_t>(i)});
    }
    view = {.blocks = {},
            .slot = slot,
            .first_row = 0,
            .n_rows = static_cast<int32_t>(rows.size()),
            .history = {}};
  }
  StepBatch batch() const { return {.rows = rows, .seqs = {&view, 1}}; }
  BatchLimits limits() const {
    return {.n_rows = static_cast<int32_t>(rows.size()), .n_seqs = 1, .n_context = 1};
  }

  std::vector<Row> rows;
  SeqView view;
};

}  // namespace

void AbsorbTaps(const DeepseekV41& model, const TapRows& rows, const Workspace& workspace) {
  SLUICE_CHECK(model.weights().draft.has_value());
  if (rows.n_rows == 0) return;
  const std::vector<TokenId> tokens(static_cast<size_t>(rows.n_rows));
  const OneSequence one(rows.slot, rows.first_pos, tokens);
  Arena arena(workspace.scratch);
  const Scratch scratch(arena, model.config(), one.limits());
  const StepBatch batch = one.batch();
  const StepOutputs out;
  Step(model, batch, workspace, out, scratch).Absorb(rows);
}

void ProposeDraft(const DeepseekV41& model,
                  const DraftRequest& request,
                  const Workspace& workspace,
                  const DraftResult& result) {
  const Config& c = model.config();
  SLUICE_CHECK(model.weights().draft.has_value() && request.length > request.begin);
  std::vector<TokenId> tokens(static_cast<size_t>(c.dspark_block_size),
                              TokenId(c.dspark_noise_token_id));
  tokens[0] = request.anchor;
  const OneSequence one(request.slot, request.length, tokens);
  Arena arena(workspace.scratch);
  const Scratch scratch(arena, c, one.limits());
  const StepBatch batch = one.batch();
  const StepOutputs out;
  Step step(model, batch, workspace, out, scratch);
  step.Embed();
  for (int32_t stage = 0; stage < c.num_nextn_predict_layers; ++stage) {
    step.RunDraftStage(stage, request);
  }
  step.HeadOfDraft(request, result);
}

}  // namespace sluice::model::deepseek_v41
