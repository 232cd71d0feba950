// Weights: the tensors of a checkpoint as the forward pass uses them: views into the mapped files,
// by layer and role. Nothing is copied or converted.
//
// Immutable after Bind; any thread may read. The Checkpoint outlives it.
//
// Matrix shapes are [n_out, n_in]. D = hidden_size, S = hc_mult, H = num_attention_heads.

#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "kernels/moe_ffn/op.h"
#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/value_sum.h"
#include "model/deepseek_v41/config.h"
#include "model/deepseek_v41/tensor_list.h"
#include "tensor/formats.h"
#include "tensor/matrix.h"

namespace sluice::model::deepseek_v41 {

struct AttentionWeights {
  const float* sink = nullptr;    // [H]
  Matrix wq_a;                    // FP8 [q_lora_rank, D]
  const Bf16* q_norm = nullptr;   // [q_lora_rank]
  Matrix wq_b;                    // FP8 [H * head_dim, q_lora_rank]
  Matrix wkv;                     // FP8 [head_dim, D]
  const Bf16* kv_norm = nullptr;  // [head_dim]
  // FP8 [o_groups * o_lora_rank, H * head_dim / o_groups]; group g is rows [g * o_lora_rank, ...)
  // and takes the outputs of its own heads, which are not quantised (spec model.md §2.5).
  Matrix wo_a;
  Matrix wo_b;  // FP8 [D, o_groups * o_lora_rank]
};

// Of a KV source.
struct CompressorWeights {
  const Bf16* norm = nullptr;          // [head_dim]
  Matrix wkv;                          // BF16 [head_dim, D]
  Matrix wgate;                        // the same, at ratio 2 only; else data is null
  Matrix index_wk;                     // BF16 [index_head_dim, head_dim]
  const Bf16* index_k_norm = nullptr;  // [index_head_dim]
};

// Of an index source.
struct IndexQueryWeights {
  Matrix weights_proj;  // BF16 [index_n_heads, D]
  Matrix wq_b;          // FP8 [index_n_heads * index_head_dim, q_lora_rank]
};

struct EngramWeights {
  const uint8_t* codes = nullptr;   // E4M3 [n_rows, engram_head_dim]
  const uint8_t* scales = nullptr;  // E8M0 [n_rows, engram_head_dim / 32]
  int64_t n_rows = 0;
  const Bf16* q_weight = nullptr;  // [S, D]
  const Bf16* k_weight = nullptr;  // [S, D]
  Matrix wkv;                      // FP8 [(S + 1) * D, n_lookups * engram_head_dim]
};

struct HyperWeights {
  Matrix fn;                     // F32 [(2 + S) S, S * D]
  const float* base = nullptr;   // [(2 + S) S]
  const float* scale = nullptr;  // [3]
};

struct MoeWeights {
  Matrix gate;                     // BF16 [n_experts, D]
  const float* bias = nullptr;     // [n_experts]
  const float* bias_vl = nullptr;  // [n_experts] for rows of images; null when the file has none
  std::vector<ops::moe_ffn::Expert> experts;
  ops::moe_ffn::Expert shared;
};

// A layer of the backbone, or a stage of the draft.
struct LayerWeights {
  const Bf16* attn_norm = nullptr;  // [D]
  const Bf16* ffn_norm = nullptr;   // [D]
  AttentionWeights attn;
  HyperWeights hc_attn;
  HyperWeights hc_ffn;
  MoeWeights ffn;
  std::optional<CompressorWeights> compressor;  // KV sources
  std::optional<IndexQueryWeights> index;       // index sources
  std::optional<EngramWeights> engram;
};

// mtp.*: what stands before the first stage and behind the last one belongs to the draft as a
// whole.
struct DraftWeights {
  Matrix main_proj;                 // FP8 [D, n_taps * D]
  const Bf16* main_norm = nullptr;  // [D]
  std::vector<LayerWeights> stages;
  const Bf16* norm = nullptr;  // [D]
  Matrix markov_embed;         // BF16 [vocab, markov_rank]
  Matrix markov_head;          // BF16 [vocab, markov_rank]
  Matrix confidence;           // BF16 [1, D + markov_rank]
};

struct Weights {
  Matrix embed;                // BF16 [vocab, D]
  Matrix head;                 // BF16 [vocab, D]
  const Bf16* norm = nullptr;  // [D]
  // The vectors that frame an image, or null.
  const Bf16* image_start = nullptr;    // [D]
  const Bf16* image_end = nullptr;      // [D]
  const Bf16* image_newline = nullptr;  // [D]
  std::vector<LayerWeights> layers;
  std::optional<DraftWeights> draft;
  // Tensors of the image encoder that are not used.
  int64_t n_unused_tensors = 0;

  const Bf16* EmbeddingRow(int32_t token) const {
    return static_cast<const Bf16*>(embed.data) + int64_t{token} * embed.n_in;
  }

  // Presence, dtype, shape and alignment of every tensor, and that there is none too many. Reads
  // no weight.
  static Result<Weights> Bind(const Checkpoint& checkpoint, const Config& config);

  // What op linear reads, and nobody else: to be packed. Of wo_a whole groups of rows are read.
  std::vector<Matrix*> ToPack(const Config& config);
};

// ValueCheck: reads every weight once, in the order of the files, and so brings it into memory.
// Whoever made it calls Step until done, and may tell of the progress in between.
//
// E8M0 scales lie in [64, 190], outside of which products of scales could leave float32 (spec
// cpu-kernels.md §3.0 rule 6); no E4M3 code is NaN; BF16 and F32 values are finite.
//
// Engram tables are left out: 98 GB each, of which a prompt reads a few kB. A bad row there spoils
// the sequences that look it up and no others. Tensors of the image encoder are left out as well.
class ValueCheck {
 public:
  // The config's tensors have been bound. The checkpoint outlives this.
  ValueCheck(const Checkpoint& checkpoint, const Config& config);

  bool done() const { return next_ == tensors_.size(); }
  // The next piece, at most some MiB. kCorrupt with file, tensor, place and value.
  Status Step();

  // Once done: of all bytes that were read. Another value anywhere gives another sum.
  const ValueSum& sum() const { return sum_; }

  int64_t done_bytes() const { return done_bytes_; }
  int64_t total_bytes() const { return total_bytes_; }
  // The file that the next piece lies in; the last one when done.
  std::string_view file() const;

 private:
  struct Item {
    const Checkpoint::Tensor* tensor;
    Encoding encoding;
  };
  const Checkpoint& checkpoint_;
  std::vector<Item> tensors_;  // by place
  size_t next_ = 0;
  int64_t at_ = 0;  // within the next tensor
  int64_t done_bytes_ = 0;
  int64_t total_bytes_ = 0;
  ValueSum sum_ = kEmptySum;
};

}  // namespace sluice::model::deepseek_v41
