#include "model/deepseek_v41/tensor_list.h"

#include <fmt/format.h>

#include <utility>

namespace sluice::model::deepseek_v41 {
namespace {

// Columns, and for E4M3 matrices also rows, that share a scale (spec model.md §2.2).
constexpr int64_t kTile = 32;

constexpr int64_t Tiles(int64_t n) { return (n + kTile - 1) / kTile; }

// Builds the list. Names of one layer are given without its prefix.
class Lister {
 public:
  // What follows belongs to `layer`, whose tensors begin with `prefix`.
  void Enter(std::string prefix, int32_t layer) {
    prefix_ = std::move(prefix);
    layer_ = layer;
  }

  void Plain(Part part, std::string_view name, DType dtype, Shape shape) {
    specs_.push_back({.name = fmt::format("{}{}", prefix_, name),
                      .dtype = dtype,
                      .shape = std::move(shape),
                      .part = draft_ ? Part::kDraft : part,
                      .layer = layer_});
  }
  void Bf16(Part part, std::string_view name, Shape shape) {
    Plain(part, name, DType::kBf16, std::move(shape));
  }
  void F32(Part part, std::string_view name, Shape shape) {
    Plain(part, name, DType::kF32, std::move(shape));
  }
  // The tensor before may be absent.
  void Optional() { specs_.back().is_optional = true; }

  // `name`.weight and `name`.scale: one scale per tile of 32 x 32.
  void Fp8(Part part, std::string_view name, int64_t n_out, int64_t n_in) {
    Plain(part, fmt::format("{}.weight", name), DType::kF8E4m3, {n_out, n_in});
    specs_.back().encoding = Encoding::kFp8Codes;
    Scales(part, name, {Tiles(n_out), Tiles(n_in)});
  }
  // Rows of 32 columns to a scale: a table whose rows are looked up.
  void Fp8Rows(Part part, std::string_view name, int64_t n_rows, int64_t n_columns) {
    Plain(part, fmt::format("{}.weight", name), DType::kF8E4m3, {n_rows, n_columns});
    specs_.back().encoding = Encoding::kFp8Codes;
    Scales(part, name, {n_rows, Tiles(n_columns)});
  }
  // Two codes a byte, one scale per row and 32 inputs.
  void Fp4(Part part, std::string_view name, int64_t n_out, int64_t n_in) {
    Plain(part, fmt::format("{}.weight", name), DType::kI8, {n_out, n_in / 2});
    specs_.back().encoding = Encoding::kFp4Codes;
    Scales(part, name, {n_out, Tiles(n_in)});
  }

  // All of mtp.* is one part.
  void SetDraft(bool draft) { draft_ = draft; }
  std::vector<TensorSpec> Take() { return std::move(specs_); }

 private:
  void Scales(Part part, std::string_view name, Shape shape) {
    Plain(part, fmt::format("{}.scale", name), DType::kF8E8m0, std::move(shape));
    specs_.back().encoding = Encoding::kScales;
  }

  std::string prefix_;
  int32_t layer_ = -1;
  bool draft_ = false;
  std::vector<TensorSpec> specs_;
};

void ListGlobals(const Config& c, Lister& list) {
  list.Bf16(Part::kHead, "embed.weight", {c.vocab_size, c.hidden_size});
  list.Bf16(Part::kHead, "head.weight", {c.vocab_size, c.hidden_size});
  list.Bf16(Part::kHead, "norm.weight", {c.hidden_size});
  for (std::string_view name : {"image_start", "image_end", "image_newline"}) {
    list.Bf16(Part::kVision, name, {c.hidden_size});
    list.Optional();
  }
}

void ListAttention(const Config& c, Lister& list) {
  constexpr Part kPart = Part::kAttention;
  list.F32(kPart, "attn.attn_sink", {c.num_attention_heads});
  list.Fp8(kPart, "attn.wq_a", c.q_lora_rank, c.hidden_size);
  list.Bf16(kPart, "attn.q_norm.weight", {c.q_lora_rank});
  list.Fp8(kPart, "attn.wq_b", c.n_query_values(), c.q_lora_rank);
  list.Fp8(kPart, "attn.wkv", c.head_dim, c.hidden_size);
  list.Bf16(kPart, "attn.kv_norm.weight", {c.head_dim});
  list.Fp8(kPart, "attn.wo_a", c.n_group_outputs(), c.n_group_inputs());
  list.Fp8(kPart, "attn.wo_b", c.hidden_size, c.n_group_outputs());
}

void ListMoe(const Config& c, int32_t n_experts, Lister& list) {
  const int64_t n = c.hidden_size, n_inner = c.moe_intermediate_size;
  list.Bf16(Part::kRouters, "ffn.gate.weight", {n_experts, n});
  list.F32(Part::kRouters, "ffn.gate.bias", {n_experts});
  list.F32(Part::kRouters, "ffn.gate.bias_vl", {n_experts});
  list.Optional();
  for (int32_t expert = 0; expert < n_experts; ++expert) {
    list.Fp4(Part::kRoutedExperts, fmt::format("ffn.experts.{}.w1", expert), n_inner, n);
    list.Fp4(Part::kRoutedExperts, fmt::format("ffn.experts.{}.w2", expert), n, n_inner);
    list.Fp4(Part::kRoutedExperts, fmt::format("ffn.experts.{}.w3", expert), n_inner, n);
  }
  list.Fp8(Part::kSharedExperts, "ffn.shared_experts.w1", n_inner, n);
  list.Fp8(Part::kSharedExperts, "ffn.shared_experts.w2", n, n_inner);
  list.Fp8(Part::kSharedExperts, "ffn.shared_experts.w3", n_inner, n);
}

// What every layer of the backbone and every stage of the draft has.
void ListLayer(const Config& c, int32_t n_experts, Lister& list) {
  ListAttention(c, list);
  list.Bf16(Part::kLayerNorms, "attn_norm.weight", {c.hidden_size});
  list.Bf16(Part::kLayerNorms, "ffn_norm.weight", {c.hidden_size});
  ListMoe(c, n_experts, list);
  for (std::string_view site : {"hc_attn", "hc_ffn"}) {
    list.F32(Part::kHyper, fmt::format("{}_fn", site),
             {c.n_hyper_values(), int64_t{c.hc_mult} * c.hidden_size});
    list.F32(Part::kHyper, fmt::format("{}_base", site), {c.n_hyper_values()});
    list.F32(Part::kHyper, fmt::format("{}_scale", site), {3});
  }
}

void ListKvSource(const Config& c, int32_t ratio, Lister& list) {
  constexpr Part kPart = Part::kIndexers;
  list.Bf16(kPart, "attn.compressor.norm.weight", {c.head_dim});
  list.Bf16(kPart, "attn.compressor.wkv.weight", {c.head_dim, c.hidden_size});
  // One token has nothing to be weighed against.
  if (ratio == 2) list.Bf16(kPart, "attn.compressor.wgate.weight", {c.head_dim, c.hidden_size});
  list.Bf16(kPart, "attn.indexer.wk.weight", {c.index_head_dim, c.head_dim});
  list.Bf16(kPart, "attn.indexer.k_norm.weight", {c.index_head_dim});
}

void ListIndexSource(const Config& c, Lister& list) {
  list.Bf16(Part::kIndexers, "attn.indexer.weights_proj.weight", {c.index_n_heads, c.hidden_size});
  list.Fp8(Part::kIndexers, "attn.indexer.wq_b", int64_t{c.index_n_heads} * c.index_head_dim,
           c.q_lora_rank);
}

void ListEngram(const Config& c, int64_t n_rows, Lister& list) {
  list.Fp8Rows(Part::kEngramTables, "engram.embed", n_rows, c.engram_head_dim);
  list.Bf16(Part::kEngramProjections, "engram.q_weight", {c.hc_mult, c.hidden_size});
  list.Bf16(Part::kEngramProjections, "engram.k_weight", {c.hc_mult, c.hidden_size});
  list.Fp8(Part::kEngramProjections, "engram.wkv", int64_t{c.hc_mult + 1} * c.hidden_size,
           int64_t{c.n_lookups()} * c.engram_head_dim);
}

void ListDraft(const Config& c, Lister& list) {
  const int32_t last = c.num_nextn_predict_layers - 1;
  list.SetDraft(true);
  for (int32_t stage = 0; stage <= last; ++stage) {
    list.Enter(fmt::format("mtp.{}.", stage), stage);
    ListLayer(c, c.dspark_n_routed_experts, list);
    if (stage == 0) {
      list.Fp8(Part::kDraft, "main_proj", c.hidden_size, int64_t{c.n_taps()} * c.hidden_size);
      list.Bf16(Part::kDraft, "main_norm.weight", {c.hidden_size});
    }
    if (stage == last) {
      list.Bf16(Part::kDraft, "norm.weight", {c.hidden_size});
      list.Bf16(Part::kDraft, "markov_head.embed.weight", {c.vocab_size, c.dspark_markov_rank});
      list.Bf16(Part::kDraft, "markov_head.head.weight", {c.vocab_size, c.dspark_markov_rank});
      list.Bf16(Part::kDraft, "confidence_head.proj.weight",
                {1, int64_t{c.hidden_size} + c.dspark_markov_rank});
    }
  }
  list.SetDraft(false);
}

void ListVision(const Config& c, const VisionConfig& v, Lister& list) {
  const auto add = [&list](const std::string& name, Shape shape) {
    list.Bf16(Part::kVision, name, std::move(shape));
    list.Optional();
  };
  const int64_t n = v.hidden_size, n_inner = v.intermediate_size;
  const int64_t n_pooled = n * v.downsample_ratio * v.downsample_ratio;
  list.Enter("", -1);
  add("vision.patch_embed.proj.weight", {n, v.patch_values()});
  add("vision.patch_embed.proj.bias", {n});
  for (int32_t block = 0; block < v.num_hidden_layers; ++block) {
    const std::string prefix = fmt::format("vision.blocks.{}.", block);
    add(prefix + "norm1.weight", {n});
    add(prefix + "attn.wqkv.weight", {3 * n, n});
    add(prefix + "attn.wqkv.bias", {3 * n});
    add(prefix + "attn.wo.weight", {n, n});
    add(prefix + "attn.wo.bias", {n});
    add(prefix + "norm2.weight", {n});
    add(prefix + "mlp.w1.weight", {2 * n_inner, n});
    add(prefix + "mlp.w2.weight", {n, n_inner});
  }
  add("vision.norm.weight", {n});
  add("aligner.w1.weight", {c.hidden_size, n_pooled});
  add("aligner.w1.bias", {c.hidden_size});
  add("aligner.w2.weight", {c.hidden_size, c.hidden_size});
  add("aligner.w2.bias", {c.hidden_size});
}

int64_t CountOf(const Shape& shape) {
  int64_t n = 1;
  for (int64_t dim : shape) n *= dim;
  return n;
}

}  // namespace

std::vector<TensorSpec> ListTensors(const Config& c) {
  Lister list;
  ListGlobals(c, list);
  for (int32_t layer = 0; layer < c.num_hidden_layers; ++layer) {
    list.Enter(fmt::format("layers.{}.", layer), layer);
    ListLayer(c, c.n_routed_experts, list);
    if (c.IsKvSource(layer)) ListKvSource(c, c.ratio(layer), list);
    if (c.IsIndexSource(layer)) ListIndexSource(c, list);
    if (const int32_t table = c.EngramIndex(layer); table >= 0) {
      ListEngram(c, c.engram_num_embeddings[static_cast<size_t>(table)], list);
    }
  }
  ListDraft(c, list);
  if (c.vision) ListVision(c, *c.vision, list);
  return list.Take();
}

std::string_view NameOf(Part part) {
  switch (part) {
    case Part::kHead:
      return "embedding, head, final norm";
    case Part::kAttention:
      return "attention";
    case Part::kRoutedExperts:
      return "routed experts";
    case Part::kSharedExperts:
      return "shared experts";
    case Part::kRouters:
      return "routers";
    case Part::kHyper:
      return "hyper-connections";
    case Part::kIndexers:
      return "compressors and indexers";
    case Part::kLayerNorms:
      return "layer norms";
    case Part::kEngramTables:
      return "Engram tables";
    case Part::kEngramProjections:
      return "Engram projections";
    case Part::kDraft:
      return "draft";
    case Part::kVision:
      return "image encoder and delimiters";
  }
  return "";
}

int64_t TensorSpec::n_bytes() const { return CountOf(shape) * SizeOf(dtype); }

int64_t TensorSpec::n_parameters() const {
  if (encoding == Encoding::kScales) return 0;
  return CountOf(shape) * (encoding == Encoding::kFp4Codes ? 2 : 1);
}

bool IsVisionName(std::string_view name) {
  return name.starts_with("vision.") || name.starts_with("aligner.");
}

std::array<PartSum, kNumParts> SumByPart(const std::vector<TensorSpec>& tensors) {
  std::array<PartSum, kNumParts> sums = {};
  for (const TensorSpec& tensor : tensors) {
    sums[static_cast<size_t>(tensor.part)] +=
        {.n_parameters = tensor.n_parameters(), .n_bytes = tensor.n_bytes(), .n_tensors = 1};
  }
  return sums;
}

}  // namespace sluice::model::deepseek_v41
