#include "model/dense/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "base/check.h"

namespace sluice::model::dense {
namespace {

// Large enough that a step costs nothing, small enough that progress is smooth.
constexpr int64_t kStepBytes = 16 << 20;

std::string PathOf(const Source& source, const StoredTensor& tensor) {
  if (source.naming() == Naming::kGguf) return source.path();
  return fmt::format("{}/{}", source.path(), source.files()[static_cast<size_t>(tensor.file)].name);
}

// Compares the list with the files, both ways.
Status Compare(const Source& source, const std::vector<TensorSpec>& specs) {
  for (const TensorSpec& spec : specs) {
    const StoredTensor* tensor = source.Find(spec.name);
    if (tensor == nullptr) {
      return Status::Invalid(fmt::format("{}: tensor {} ({}) is missing", source.path(), spec.name,
                                         ToString(spec.shape)));
    }
    if (tensor->shape != spec.shape) {
      return Status::Invalid(fmt::format("{}: tensor {} is {}; the config makes it {}",
                                         PathOf(source, *tensor), spec.name,
                                         ToString(tensor->shape), ToString(spec.shape)));
    }
    if (spec.shape.size() == 1 && IsBlockFormat(tensor->matrix.format)) {
      return Status(ErrorCode::kUnsupported,
                    fmt::format("{}: tensor {} is {}; a vector must be F32, F16 or BF16",
                                PathOf(source, *tensor), spec.name, NameOf(tensor->matrix.format)));
    }
  }
  if (source.tensors().size() == specs.size()) return Status::Ok();
  std::vector<std::string_view> known;
  for (const TensorSpec& spec : specs) known.push_back(spec.name);
  std::ranges::sort(known);
  std::string unknown;  // the first of them
  for (const StoredTensor& tensor : source.tensors()) {
    if (std::ranges::binary_search(known, tensor.name)) continue;
    unknown = tensor.name;
    break;
  }
  return Status::Invalid(fmt::format("{}: {} tensors have no place in this model; the first is {}",
                                     source.path(), source.tensors().size() - specs.size(),
                                     unknown));
}

std::vector<float> VectorOf(const StoredTensor& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.matrix.n_in));
  DecodeMatrixRow(tensor.matrix, 0, values.data());
  return values;
}

void Place(const TensorSpec& spec, const StoredTensor& tensor, Weights& weights) {
  if (spec.role == Role::kEmbedding) weights.embedding = tensor.matrix;
  if (spec.role == Role::kHead) weights.head = tensor.matrix;
  if (spec.role == Role::kFinalNorm) weights.norm = VectorOf(tensor);
  if (spec.layer < 0) return;
  LayerWeights& layer = weights.layers[static_cast<size_t>(spec.layer)];
  struct MatrixPlace {
    Role role;
    Matrix LayerWeights::* field;
  };
  constexpr MatrixPlace kMatrices[] = {
      {Role::kQuery, &LayerWeights::query}, {Role::kKey, &LayerWeights::key},
      {Role::kValue, &LayerWeights::value}, {Role::kOutput, &LayerWeights::output},
      {Role::kGate, &LayerWeights::gate},   {Role::kUp, &LayerWeights::up},
      {Role::kDown, &LayerWeights::down}};
  for (const MatrixPlace& place : kMatrices) {
    if (place.role == spec.role) layer.*place.field = tensor.matrix;
  }
  struct VectorPlace {
    Role role;
    std::vector<float> LayerWeights::* field;
  };
  constexpr VectorPlace kVectors[] = {{Role::kAttentionNorm, &LayerWeights::attention_norm},
                                      {Role::kFeedForwardNorm, &LayerWeights::feed_forward_norm},
                                      {Role::kQueryBias, &LayerWeights::query_bias},
                                      {Role::kKeyBias, &LayerWeights::key_bias},
                                      {Role::kValueBias, &LayerWeights::value_bias}};
  for (const VectorPlace& place : kVectors) {
    if (place.role == spec.role) layer.*place.field = VectorOf(tensor);
  }
}

}  // namespace

Result<Weights> Weights::Bind(const Source& source) {
  const std::vector<TensorSpec> specs = ListTensors(source.config(), source.naming());
  SLUICE_TRY(Compare(source, specs));
  Weights weights;
  weights.layers.resize(static_cast<size_t>(source.config().num_hidden_layers));
  for (const TensorSpec& spec : specs) Place(spec, *source.Find(spec.name), weights);
  if (source.config().tie_word_embeddings) weights.head = weights.embedding;
  return weights;
}

std::vector<Matrix*> Weights::ToPack() {
  std::vector<Matrix*> matrices = {&head};
  if (embedding.data == head.data) matrices.push_back(&embedding);
  for (LayerWeights& layer : layers) {
    for (Matrix* matrix : {&layer.query, &layer.key, &layer.value, &layer.output, &layer.gate,
                           &layer.up, &layer.down}) {
      matrices.push_back(matrix);
    }
  }
  return matrices;
}

ValueCheck::ValueCheck(const Source& source) : source_(source) {
  for (const StoredTensor& tensor : source.tensors()) {
    tensors_.push_back(&tensor);
    total_bytes_ += static_cast<int64_t>(tensor.bytes.size());
  }
  std::ranges::sort(tensors_, [](const StoredTensor* a, const StoredTensor* b) {
    return std::tie(a->file, a->begin) < std::tie(b->file, b->begin);
  });
}

std::string_view ValueCheck::file() const {
  if (tensors_.empty()) return {};
  const StoredTensor* tensor = tensors_[std::min(next_, tensors_.size() - 1)];
  return source_.files()[static_cast<size_t>(tensor->file)].name;
}

Status ValueCheck::Step() {
  SLUICE_CHECK(!done());
  int64_t n_left = kStepBytes;
  while (!done() && n_left > 0) {
    const StoredTensor& tensor = *tensors_[next_];
    const int64_t row_bytes = RowBytesOf(tensor.matrix);
    const int64_t n_rows =
        std::min(std::max<int64_t>(n_left / row_bytes, 1), tensor.matrix.n_out - next_row_);
    const Status finite = CheckFinite(tensor.name, tensor.matrix, next_row_, n_rows);
    if (!finite.ok()) {
      return {ErrorCode::kCorrupt,
              fmt::format("{}: {}", PathOf(source_, tensor), finite.message())};
    }
    const int64_t n_bytes = n_rows * row_bytes;
    AddToSum(sum_, tensor.bytes.subspan(static_cast<size_t>(next_row_ * row_bytes),
                                        static_cast<size_t>(n_bytes)));
    n_left -= n_bytes;
    done_bytes_ += n_bytes;
    next_row_ += n_rows;
    if (next_row_ < tensor.matrix.n_out) continue;
    ++next_;
    next_row_ = 0;
  }
  return Status::Ok();
}

}  // namespace sluice::model::dense
