#include "model/dense/source.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace sluice::model::dense {
namespace {

std::optional<MatrixFormat> FormatOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return MatrixFormat::kF32;
    case DType::kF16:
      return MatrixFormat::kF16;
    case DType::kBf16:
      return MatrixFormat::kBf16;
    default:
      return std::nullopt;
  }
}

Status CheckDims(std::string_view name, const Shape& shape) {
  if (!shape.empty() && shape.size() <= 2) return Status::Ok();
  return Status::Invalid(
      fmt::format("tensor {} has {} dimensions; this model's have 1 or 2", name, shape.size()));
}

// Of a safetensors file. Files begin at a page, so a place within the file says how a value lies in
// memory.
Result<StoredTensor> Stored(const Checkpoint& checkpoint, const Checkpoint::Tensor& tensor) {
  const TensorEntry& entry = tensor.entry;
  SLUICE_TRY(CheckDims(entry.name, entry.shape));
  const std::optional<MatrixFormat> format = FormatOf(entry.dtype);
  if (!format) {
    return Status(ErrorCode::kUnsupported,
                  fmt::format("tensor {} is {}; this model's are F32, F16 or BF16", entry.name,
                              NameOf(entry.dtype)));
  }
  if (entry.begin % SizeOf(entry.dtype) != 0) {
    return Status::Invalid(fmt::format(
        "tensor {} begins at byte {} of the file; {} values must begin at a multiple of {}",
        entry.name, entry.begin, NameOf(entry.dtype), SizeOf(entry.dtype)));
  }
  const ConstBytes bytes = checkpoint.View(tensor).bytes;
  return StoredTensor{.name = entry.name,
                      .shape = entry.shape,
                      .matrix = {.format = *format,
                                 .data = bytes.data(),
                                 .n_out = entry.shape.size() == 2 ? entry.shape[0] : 1,
                                 .n_in = entry.shape.back()},
                      .file = tensor.file,
                      .begin = entry.begin,
                      .bytes = bytes};
}

}  // namespace

Result<Source> Source::Open(FileSystem& fs, const ModelPlace& place) {
  Source source;
  source.path_ = place.path;
  SLUICE_TRY(place.kind == ModelPlace::Kind::kGguf ? source.OpenGguf(fs, place.path)
                                                   : source.OpenFolder(fs, place.path));
  return source;
}

Status Source::OpenFolder(FileSystem& fs, const std::string& folder) {
  SLUICE_TRY(Checkpoint opened, Checkpoint::Open(fs, folder));
  const Checkpoint& checkpoint = mapped_.emplace<Checkpoint>(std::move(opened));
  Result<Config> config = Config::Parse(checkpoint.config_text());
  if (!config) return config.error().AddContext(folder);
  config_ = std::move(*config);
  naming_ = Naming::kHuggingFace;
  for (const Checkpoint::File& file : checkpoint.files()) {
    files_.push_back({.name = file.name, .n_bytes = file.n_bytes});
  }
  for (const Checkpoint::Tensor& tensor : checkpoint.tensors()) {
    Result<StoredTensor> stored = Stored(checkpoint, tensor);
    if (!stored) {
      const std::string& file = files_[static_cast<size_t>(tensor.file)].name;
      return stored.error().AddContext(fmt::format("{}/{}", folder, file));
    }
    tensors_.push_back(std::move(*stored));
  }
  return Status::Ok();
}

Status Source::OpenGguf(FileSystem& fs, const std::string& path) {
  SLUICE_TRY(GgufFile opened, GgufFile::Open(fs, path));
  const GgufFile& file = mapped_.emplace<GgufFile>(std::move(opened));
  Result<Config> config = Config::FromGguf(file);
  if (!config) return config.error().AddContext(path);
  config_ = std::move(*config);
  naming_ = Naming::kGguf;
  SLUICE_TRY(const int64_t n_bytes, fs.Size(path));
  const size_t slash = path.rfind('/');
  files_.push_back(
      {.name = slash == std::string::npos ? path : path.substr(slash + 1), .n_bytes = n_bytes});
  for (const GgufTensor& tensor : file.tensors()) {
    Status dims = CheckDims(tensor.name, tensor.shape);
    if (!dims.ok()) return dims.AddContext(path);
    tensors_.push_back({.name = std::string(tensor.name),
                        .shape = tensor.shape,
                        .matrix = file.MatrixOf(tensor),
                        .begin = tensor.begin,
                        .bytes = file.BytesOf(tensor)});
  }
  return Status::Ok();
}

const StoredTensor* Source::Find(std::string_view name) const {
  const auto at = std::lower_bound(
      tensors_.begin(), tensors_.end(), name,
      [](const StoredTensor& tensor, std::string_view n) { return tensor.name < n; });
  return at == tensors_.end() || at->name != name ? nullptr : &*at;
}

void Source::Drop(ConstBytes bytes) const {
  if (const auto* const checkpoint = std::get_if<Checkpoint>(&mapped_)) checkpoint->Drop(bytes);
  if (const auto* const gguf = std::get_if<GgufFile>(&mapped_)) gguf->Drop(bytes);
}

}  // namespace sluice::model::dense
