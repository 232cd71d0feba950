#include "model/deepseek_v41/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "model/deepseek_v41/tensor_list.h"
#include "tensor/packed.h"

namespace sluice::model::deepseek_v41 {
namespace {

Status Refuse(const Checkpoint& checkpoint, const Checkpoint::Tensor& tensor, std::string what) {
  return Status::Invalid(fmt::format("{}/{}: tensor {}: {}", checkpoint.folder(),
                                     checkpoint.files()[static_cast<size_t>(tensor.file)].name,
                                     tensor.entry.name, what));
}

// A tensor of the list and of the file, which agree.
struct Bound {
  const TensorSpec* spec;
  const Checkpoint::Tensor* tensor;
  bool is_used = false;
};

class Binder {
 public:
  Binder(const Checkpoint& checkpoint, const Config& config)
      : checkpoint_(checkpoint), specs_(ListTensors(config)) {}

  // Compares the list with the files, both ways.
  Status Compare();

  // The rest gives views by name; the names are those of the list. `name`.weight with its scales,
  // or `name` itself.
  Matrix GetMatrix(const std::string& name);
  const Bf16* GetBf16(const std::string& name) { return Get<Bf16>(name, DType::kBf16); }
  const float* GetF32(const std::string& name) { return Get<float>(name, DType::kF32); }
  const uint8_t* GetE4m3(const std::string& name) { return Get<uint8_t>(name, DType::kF8E4m3); }
  const uint8_t* GetE8m0(const std::string& name) { return Get<uint8_t>(name, DType::kF8E8m0); }

  // A tensor of the list that nobody asked for is a bug of ours.
  void CheckAllUsed() const;
  int64_t n_unused() const { return n_unused_; }

 private:
  Status CompareOne(const TensorSpec& spec);
  Status RefuseMissing(const std::vector<const TensorSpec*>& missing) const;
  Status RefuseUnknown(const std::vector<std::string_view>& unknown) const;

  // Null when the tensor is optional and absent.
  Bound* Find(const std::string& name);
  // The same as bytes.
  template <typename T>
  const T* Get(const std::string& name, DType dtype);

  const Checkpoint& checkpoint_;
  const std::vector<TensorSpec> specs_;
  std::unordered_map<std::string_view, Bound> bound_;
  int64_t n_unused_ = 0;
};

Status Binder::Compare() {
  std::vector<const TensorSpec*> missing;
  for (const TensorSpec& spec : specs_) {
    const Checkpoint::Tensor* tensor = checkpoint_.Find(spec.name);
    if (tensor == nullptr) {
      if (!spec.is_optional) missing.push_back(&spec);
      continue;
    }
    bound_[spec.name] = {.spec = &spec, .tensor = tensor};
    SLUICE_TRY(CompareOne(spec));
  }
  if (!missing.empty()) return RefuseMissing(missing);
  std::vector<std::string_view> unknown;
  for (const Checkpoint::Tensor& tensor : checkpoint_.tensors()) {
    const bool is_vision = IsVisionName(tensor.entry.name);
    n_unused_ += is_vision ? 1 : 0;
    if (!is_vision && bound_.count(tensor.entry.name) == 0) unknown.push_back(tensor.entry.name);
  }
  return unknown.empty() ? Status::Ok() : RefuseUnknown(unknown);
}

Status Binder::CompareOne(const TensorSpec& spec) {
  const Checkpoint::Tensor& tensor = *bound_.at(spec.name).tensor;
  const TensorEntry& entry = tensor.entry;
  if (entry.dtype != spec.dtype || entry.shape != spec.shape) {
    return Refuse(checkpoint_, tensor,
                  fmt::format("is {} {}; config.json makes it {} {}", NameOf(entry.dtype),
                              ToString(entry.shape), NameOf(spec.dtype), ToString(spec.shape)));
  }
  // Files begin at a page, so a place within the file says how the value lies in memory.
  if (entry.begin % SizeOf(entry.dtype) != 0) {
    return Refuse(checkpoint_, tensor,
                  fmt::format("begins at byte {} of the file; {} values must begin at a multiple "
                              "of {}",
                              entry.begin, NameOf(entry.dtype), SizeOf(entry.dtype)));
  }
  return Status::Ok();
}

Status Binder::RefuseMissing(const std::vector<const TensorSpec*>& missing) const {
  const TensorSpec& first = *missing.front();
  return Status::Invalid(
      fmt::format("{}: {} tensors that config.json asks for are missing, the first is {} ({} {})",
                  checkpoint_.folder(), missing.size(), first.name, NameOf(first.dtype),
                  ToString(first.shape)));
}

Status Binder::RefuseUnknown(const std::vector<std::string_view>& unknown) const {
  constexpr size_t kShown = 8;
  const size_t n_shown = std::min(unknown.size(), kShown);
  return Status::Invalid(fmt::format(
      "{}: {} tensors have no place in this model: {}{}", checkpoint_.folder(), unknown.size(),
      fmt::join(unknown.begin(), unknown.begin() + static_cast<ptrdiff_t>(n_shown), ", "),
      unknown.size() > kShown ? ", ..." : ""));
}

Bound* Binder::Find(const std::string& name) {
  const auto at = bound_.find(name);
  if (at == bound_.end()) return nullptr;
  at->second.is_used = true;
  return &at->second;
}

template <typename T>
const T* Binder::Get(const std::string& name, DType dtype) {
  const Bound* bound = Find(name);
  if (bound == nullptr) return nullptr;
  SLUICE_CHECK(bound->spec->dtype == dtype);
  return reinterpret_cast<const T*>(checkpoint_.View(*bound->tensor).bytes.data());
}

Matrix Binder::GetMatrix(const std::string& name) {
  Bound* bound = Find(name + ".weight");
  if (bound == nullptr) bound = Find(name);
  if (bound == nullptr) return {};
  const TensorSpec& spec = *bound->spec;
  SLUICE_CHECK(spec.shape.size() == 2);
  Matrix matrix = {.data = checkpoint_.View(*bound->tensor).bytes.data(),
                   .n_out = spec.shape[0],
                   .n_in = spec.shape[1]};
  switch (spec.encoding) {
    case Encoding::kPlain:
      matrix.format = spec.dtype == DType::kF32 ? MatrixFormat::kF32 : MatrixFormat::kBf16;
      return matrix;
    case Encoding::kFp8Codes:
      matrix.format = MatrixFormat::kFp8;
      break;
    case Encoding::kFp4Codes:
      matrix.format = MatrixFormat::kFp4;
      matrix.n_in *= 2;
      break;
    case Encoding::kScales:
      SLUICE_CHECK(false);
  }
  matrix.scales = GetE8m0(name + ".scale");
  return matrix;
}

void Binder::CheckAllUsed() const {
  for (const auto& [name, bound] : bound_) SLUICE_CHECK(bound.is_used || IsVisionName(name));
}

AttentionWeights BindAttention(const std::string& at, Binder& binder) {
  return {.sink = binder.GetF32(at + "attn_sink"),
          .wq_a = binder.GetMatrix(at + "wq_a"),
          .q_norm = binder.GetBf16(at + "q_norm.weight"),
          .wq_b = binder.GetMatrix(at + "wq_b"),
          .wkv = binder.GetMatrix(at + "wkv"),
          .kv_norm = binder.GetBf16(at + "kv_norm.weight"),
          .wo_a = binder.GetMatrix(at + "wo_a"),
          .wo_b = binder.GetMatrix(at + "wo_b")};
}

CompressorWeights BindCompressor(const std::string& at, Binder& binder) {
  return {.norm = binder.GetBf16(at + "compressor.norm.weight"),
          .wkv = binder.GetMatrix(at + "compressor.wkv"),
          .wgate = binder.GetMatrix(at + "compressor.wgate"),
          .index_wk = binder.GetMatrix(at + "indexer.wk"),
          .index_k_norm = binder.GetBf16(at + "indexer.k_norm.weight")};
}

IndexQueryWeights BindIndexQuery(const std::string& at, Binder& binder) {
  return {.weights_proj = binder.GetMatrix(at + "indexer.weights_proj"),
          .wq_b = binder.GetMatrix(at + "indexer.wq_b")};
}

EngramWeights BindEngram(const std::string& at, int64_t n_rows, Binder& binder) {
  return {.codes = binder.GetE4m3(at + "embed.weight"),
          .scales = binder.GetE8m0(at + "embed.scale"),
          .n_rows = n_rows,
          .q_weight = binder.GetBf16(at + "q_weight"),
          .k_weight = binder.GetBf16(at + "k_weight"),
          .wkv = binder.GetMatrix(at + "wkv")};
}

HyperWeights BindHyper(const std::string& at, Binder& binder) {
  return {.fn = binder.GetMatrix(at + "_fn"),
          .base = binder.GetF32(at + "_base"),
          .scale = binder.GetF32(at + "_scale")};
}

ops::moe_ffn::Expert BindExpert(const std::string& at, Binder& binder) {
  return {.w1 = binder.GetMatrix(at + ".w1"),
          .w2 = binder.GetMatrix(at + ".w2"),
          .w3 = binder.GetMatrix(at + ".w3")};
}

MoeWeights BindMoe(const std::string& at, int32_t n_experts, Binder& binder) {
  MoeWeights moe = {.gate = binder.GetMatrix(at + "gate"),
                    .bias = binder.GetF32(at + "gate.bias"),
                    .bias_vl = binder.GetF32(at + "gate.bias_vl"),
                    .shared = BindExpert(at + "shared_experts", binder)};
  for (int32_t expert = 0; expert < n_experts; ++expert) {
    moe.experts.push_back(BindExpert(fmt::format("{}experts.{}", at, expert), binder));
  }
  return moe;
}

// What every layer and every stage has.
LayerWeights BindLayer(const std::string& at, int32_t n_experts, Binder& binder) {
  return {.attn_norm = binder.GetBf16(at + "attn_norm.weight"),
          .ffn_norm = binder.GetBf16(at + "ffn_norm.weight"),
          .attn = BindAttention(at + "attn.", binder),
          .hc_attn = BindHyper(at + "hc_attn", binder),
          .hc_ffn = BindHyper(at + "hc_ffn", binder),
          .ffn = BindMoe(at + "ffn.", n_experts, binder)};
}

LayerWeights BindBackboneLayer(const Config& config, int32_t layer, Binder& binder) {
  const std::string at = fmt::format("layers.{}.", layer);
  LayerWeights weights = BindLayer(at, config.n_routed_experts, binder);
  if (config.IsKvSource(layer)) weights.compressor = BindCompressor(at + "attn.", binder);
  if (config.IsIndexSource(layer)) weights.index = BindIndexQuery(at + "attn.", binder);
  if (const int32_t table = config.EngramIndex(layer); table >= 0) {
    const int64_t n_rows = config.engram_num_embeddings[static_cast<size_t>(table)];
    weights.engram = BindEngram(at + "engram.", n_rows, binder);
  }
  return weights;
}

DraftWeights BindDraft(const Config& config, Binder& binder) {
  const int32_t n_stages = config.num_nextn_predict_layers;
  const std::string last = fmt::format("mtp.{}.", n_stages - 1);
  DraftWeights draft = {.main_proj = binder.GetMatrix("mtp.0.main_proj"),
                        .main_norm = binder.GetBf16("mtp.0.main_norm.weight"),
                        .norm = binder.GetBf16(last + "norm.weight"),
                        .markov_embed = binder.GetMatrix(last + "markov_head.embed"),
                        .markov_head = binder.GetMatrix(last + "markov_head.head"),
                        .confidence = binder.GetMatrix(last + "confidence_head.proj")};
  for (int32_t stage = 0; stage < n_stages; ++stage) {
    draft.stages.push_back(
        BindLayer(fmt::format("mtp.{}.", stage), config.dspark_n_routed_experts, binder));
  }
  return draft;
}

}  // namespace

Result<Weights> Weights::Bind(const Checkpoint& checkpoint, const Config& config) {
  Binder binder(checkpoint, config);
  SLUICE_TRY(binder.Compare());
  Weights weights = {.embed = binder.GetMatrix("embed"),
                     .head = binder.GetMatrix("head"),
                     .norm = binder.GetBf16("norm.weight"),
                     .image_start = binder.GetBf16("image_start"),
                     .image_end = binder.GetBf16("image_end"),
                     .image_newline = binder.GetBf16("image_newline")};
  for (int32_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    weights.layers.push_back(BindBackboneLayer(config, layer, binder));
  }
  if (config.num_nextn_predict_layers > 0) weights.draft = BindDraft(config, binder);
  binder.CheckAllUsed();
  weights.n_unused_tensors = binder.n_unused();
  return weights;
}

namespace {

void AddExpert(ops::moe_ffn::Expert& expert, std::vector<Matrix*>& matrices) {
  for (Matrix* matrix : {&expert.w1, &expert.w2, &expert.w3}) matrices.push_back(matrix);
}

void AddLayer(LayerWeights& layer, bool with_groups, std::vector<Matrix*>& matrices) {
  AttentionWeights& attn = layer.attn;
  for (Matrix* matrix : {&attn.wq_a, &attn.wq_b, &attn.wkv, &attn.wo_b}) matrices.push_back(matrix);
  if (with_groups) matrices.push_back(&attn.wo_a);
  if (layer.compressor) {
    CompressorWeights& compressor = *layer.compressor;
    matrices.push_back(&compressor.wkv);
    if (compressor.wgate.data != nullptr) matrices.push_back(&compressor.wgate);
    matrices.push_back(&compressor.index_wk);
  }
  if (layer.index) {
    matrices.push_back(&layer.index->weights_proj);
    matrices.push_back(&layer.index->wq_b);
  }
  if (layer.engram) matrices.push_back(&layer.engram->wkv);
  matrices.push_back(&layer.ffn.gate);
  for (ops::moe_ffn::Expert& expert : layer.ffn.experts) AddExpert(expert, matrices);
  AddExpert(layer.ffn.shared, matrices);
}

}  // namespace

std::vector<Matrix*> Weights::ToPack(const Config& config) {
  std::vector<Matrix*> matrices = {&head};
  const bool with_groups = config.o_lora_rank % PackedShapeOf(MatrixFormat::kFp8).n_rows == 0;
  for (LayerWeights& layer : layers) AddLayer(layer, with_groups, matrices);
  if (draft) {
    matrices.push_back(&draft->main_proj);
    for (LayerWeights& stage : draft->stages) AddLayer(stage, with_groups, matrices);
    matrices.push_back(&draft->markov_head);
    matrices.push_back(&draft->confidence);
  }
  return matrices;
}

}  // namespace sluice::model::deepseek_v41
