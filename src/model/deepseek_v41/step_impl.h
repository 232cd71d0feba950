// Step: one forward pass in the making. Its parts are spread over the files named after them;
// forward.cc calls them in the order of the paper.
//
// Owned by the engine thread for the time of one Forward.
//
// N = active rows, D = hidden_size, S = hc_mult, H = heads, d = head_dim.

#pragma once

#include <cstdint>
#include <span>

#include "kernels/compress_pair/op.h"
#include "kernels/index_score/op.h"
#include "kernels/sparse_attention/op.h"
#include "model/deepseek_v41/deepseek_v41.h"
#include "model/deepseek_v41/draft.h"
#include "tensor/buffer.h"

namespace sluice::model::deepseek_v41 {

// Room for all intermediate values of a step, laid out once.
struct Scratch {
  // A counting arena only adds up.
  Scratch(Arena& arena, const Config& config, const BatchLimits& limits);

  // Rows that still run. Rows of a sequence lie together.
  std::span<int32_t> row;       // [N] in the batch
  std::span<int32_t> position;  // [N]
  std::span<int32_t> seq;       // [N]
  std::span<uint8_t> is_image;  // [N]
  std::span<int32_t> first;     // [n_seqs] first active row of the sequence
  std::span<int32_t> n_of_seq;  // [n_seqs] how many

  std::span<Bf16> streams;           // [N, S, D]
  std::span<float> mix;              // [N, S] collapses the streams into the next site's input
  std::span<float> pre, post, comb;  // [N, S], [N, S], [N, S, S] of the attention site
  std::span<float> ffn_pre, ffn_post, ffn_comb;
  std::span<float> projection;  // [N, (2 + S) S]
  std::span<Bf16> u;            // [N, D] input of a site
  std::span<Bf16> quantized;    // [N, widest] values of AQ8
  std::span<Bf16> y;            // [N, D] output of a site

  std::span<float> cos, sin;                             // [N, pairs] of the layer's table
  std::span<float> entry_cos, entry_sin;                 // the same at the positions of entries
  std::span<int32_t> entry_position;                     // [N]
  std::span<Bf16> qr;                                    // [N, q_lora_rank]
  std::span<Bf16> q, o;                                  // [N, H, d]
  std::span<Bf16> kv;                                    // [N, d]
  std::span<uint8_t> window_rows;                        // [N, RowBytes(kFp8, d)]
  std::span<ops::sparse_attention::Row> attention_rows;  // [N]
  std::span<uint8_t> draft_rows;  // [sliding_window + block] window rows of one draft
  std::span<Bf16> z;              // [N, o_groups * o_lora_rank]

  std::span<float> value, gate;               // [N, d] of a ratio-2 compressor
  std::span<ops::compress_pair::Pair> pairs;  // [N]
  std::span<int32_t> entry_row;               // [N] active row that completes the entry
  std::span<Bf16> latent;                     // [N, d] entries
  std::span<Bf16> key;                        // [N, index_head_dim]
  std::span<uint8_t> entry_rows, key_rows;    // stored rows

  int64_t n_score_rows = 0;  // rows scored at a time
  int64_t score_stride = 0;
  std::span<Bf16> iq;                           // [N, index heads, index_head_dim]
  std::span<Bf16> index_weights;                // [N, index heads]
  std::span<float> scores;                      // [n_score_rows, score_stride]
  std::span<ops::index_score::Row> score_rows;  // [n_score_rows]
  std::span<int64_t> n_visible;                 // [n_score_rows]
  std::span<int32_t> top_k;                     // scratch of op top_k
  std::span<int32_t> chosen;                    // [N, index_topk]
  std::span<int32_t> candidates;                // [N, candidate_topk_blocks]

  std::span<float> router_logits;  // [N, experts]
  std::span<int32_t> experts;      // [N, experts per token]
  std::span<float> expert_weights;
  std::span<std::byte> moe;  // scratch of op moe_ffn

  std::span<int64_t> engram_rows;  // [N, lookups]
  std::span<Bf16> engram_values;   // [N, lookups * engram_head_dim]
  std::span<Bf16> engram_kv;       // [N, (S + 1) D]
  std::span<float> engram_gate;    // [N, S]

  std::span<Bf16> hidden;  // [n_logits, D]

 private:
  void LayAttention(Arena& arena, const Config& config, int64_t n);
  void LaySelection(Arena& arena, const Config& config, const BatchLimits& limits);
};

class Step {
 public:
  Step(const DeepseekV41& model,
       const StepBatch& batch,
       const Workspace& workspace,
       const StepOutputs& out,
       const Scratch& scratch);

  void Embed();
  void RunLayer(int32_t layer);
  void Head();

  // What RunLayer is made of, in its order.
  void Engram(int32_t layer, const EngramWeights& weights);
  void RunBlock(int32_t layer);
  void WriteEntries(int32_t layer, const CompressorWeights& weights);
  void DropKvOnlyRows();
  void Tap(int32_t layer);
  void Attention(int32_t layer, const LayerWeights& weights);
  void Moe(int32_t layer, const MoeWeights& weights, int32_t n_chosen);

  // draft.cc: the same parts for rows of one sequence's draft.
  void Absorb(const TapRows& rows);
  void RunDraftStage(int32_t stage, const DraftRequest& request);
  void HeadOfDraft(const DraftRequest& request, const DraftResult& result);

  int64_t n_rows() const { return n_rows_; }
  const Scratch& scratch() const { return s_; }

 private:
  struct HyperOut {
    float* pre;
    float* post;
    float* comb;
  };
  void StartRows();
  void CountRows();
  void Mix(const HyperWeights& weights, const HyperOut& out);
  void CollapseOnly(const float* mix, Bf16* out);
  void Collapse(const float* mix, const Bf16* norm, Bf16* out);  // and its norm
  void Expand(const Bf16* y, const float* post, const float* comb);

  // attention.cc
  void Query(const AttentionWeights& weights);
  void Window(int32_t layer, const AttentionWeights& weights);
  void Attend(int32_t layer, const AttentionWeights& weights);
  void Output(const AttentionWeights& weights);
  void StoreWindow(int32_t layer);
  float AttentionScale() const;
  void AttendToDraft(int32_t stage, const DraftRequest& request, const AttentionWeights& weights);
  // indexer.cc
  void Select(int32_t layer, const IndexQueryWeights& weights);
  void ScoreAndChoose(int32_t layer, int64_t first, int64_t n);
  void NoteScores(int32_t layer, int64_t n);
  // kv_source.cc: how many entries these rows complete; their latents and positions in scratch.
  int64_t CompressSingles(const CompressorWeights& weights);
  int64_t CompressPairs(int32_t layer, const CompressorWeights& weights);
  int64_t GatherPairs(int32_t layer);
  void KeepOpen(int32_t layer);
  float* OpenRow(int32_t layer, int64_t row) const;
  void StoreEntries(int32_t layer, const CompressorWeights& weights, int64_t n_entries);
  // engram.cc
  void HashAll(int32_t layer);

  // x [n, weight.n_in] -> out [n, weight.n_out]; x quantised before if the weight asks for it.
  void Linear(const Bf16* x, const Matrix& weight, int64_t n, Bf16* out);
  void LinearF32(const Bf16* x, const Matrix& weight, int64_t n, float* out);
  const Bf16* Quantized(const Bf16* x, int64_t n, int32_t n_columns);
  void Norm(Bf16* x, const Bf16* weight, int64_t n, int32_t n_columns);
  void TurnAngles(const std::vector<float>& frequencies,
                  std::span<const int32_t> positions,
                  std::span<float> cos,
                  std::span<float> sin);

  // Turns the last components of each head of x [n, n_heads, head_dim] by the angles [n, pairs].
  struct RotateParams {
    Bf16* x = nullptr;
    int64_t n = 0;
    int32_t n_heads = 1;
    int32_t head_dim = 0;
    const float* cos = nullptr;
    const float* sin = nullptr;
    bool inverse = false;
  };
  void Rotate(const RotateParams& params);

  const SeqView& SeqOf(int64_t row) const {
    return batch_.seqs[static_cast<size_t>(s_.seq[static_cast<size_t>(row)])];
  }
  const Row& RowOf(int64_t row) const {
    return batch_.rows[static_cast<size_t>(s_.row[static_cast<size_t>(row)])];
  }
  bool InDecoder(int32_t layer) const { return layer >= c_.decoder_start(); }

  // For whoever looks: nothing unless a trace was given.
  void Note(std::string_view name,
            int32_t layer,
            DType dtype,
            std::initializer_list<int64_t> shape,
            const void* data) const;

  const DeepseekV41& model_;
  const Config& c_;
  const Weights& w_;
  const StateIndex& state_;
  const StepBatch& batch_;
  const Workspace& workspace_;
  Stream& stream_;
  const StepOutputs& out_;
  const Scratch& s_;
  int64_t n_rows_ = 0;  // active
};

}  // namespace sluice::model::deepseek_v41
