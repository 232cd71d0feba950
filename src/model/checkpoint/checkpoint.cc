#include "model/checkpoint/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/json.h"
#include "base/limits.h"
#include "model/checkpoint/untrusted_text.h"

namespace sluice::model {
namespace {

constexpr std::string_view kConfigName = "config.json";
constexpr std::string_view kIndexName = "model.safetensors.index.json";
constexpr std::string_view kOnlyFileName = "model.safetensors";
// { metadata: { total_size: } }, and room for what else somebody writes there.
constexpr int32_t kIndexDepth = 8;

std::string PathOf(std::string_view folder, std::string_view name) {
  return fmt::format("{}/{}", folder, name);
}

struct IndexLine {
  std::string_view tensor;
  std::string_view file;
};

// The weight_map by tensor. Views into the index.
Result<std::vector<IndexLine>> ReadWeightMap(JsonValue index) {
  const JsonValue map = index.Find("weight_map");
  if (!map.is_object() || map.size() == 0) {
    return Status::Invalid("weight_map must be an object {tensor: file}");
  }
  if (map.size() > limits::kMaxTensors) {
    return Status::Invalid(fmt::format("weight_map has {} tensors, at most {} are allowed",
                                       map.size(), limits::kMaxTensors));
  }
  std::vector<IndexLine> lines;
  for (JsonMember member : map.members()) {
    if (!member.value.is_string()) {
      return Status::Invalid(
          fmt::format("weight_map: the file of tensor {} must be a string", Quote(member.key)));
    }
    const std::string_view file = member.value.AsString();
    // A plain name within the folder: an index must not make us open anything else.
    const bool stays = IsPlainName(file) && file.find('/') == std::string_view::npos &&
                       file.ends_with(".safetensors") && file[0] != '.';
    if (!stays) {
      return Status::Invalid(
          fmt::format("weight_map: tensor {} is in file {}; it must be the plain name of a "
                      ".safetensors file in this folder",
                      Quote(member.key), Quote(file)));
    }
    lines.push_back({member.key, file});
  }
  std::sort(lines.begin(), lines.end(),
            [](const IndexLine& a, const IndexLine& b) { return a.tensor < b.tensor; });
  return lines;
}

// metadata.total_size, if there is one: the bytes of all tensors.
Status CheckTotal(JsonValue index, int64_t n_data_bytes) {
  const JsonValue total = index.Find("metadata").Find("total_size");
  if (!total.exists()) return Status::Ok();
  if (!total.is_number() || total.AsDouble() != static_cast<double>(n_data_bytes)) {
    return Status::Invalid(fmt::format("total_size is {}, and the tensors have {} bytes",
                                       Shorten(total.ToText()), n_data_bytes));
  }
  return Status::Ok();
}

// Invariant 1: both sides by tensor name.
Status CompareWithIndex(const std::vector<IndexLine>& index,
                        const std::vector<Checkpoint::Tensor>& tensors,
                        const std::vector<Checkpoint::File>& files) {
  size_t i = 0, j = 0;
  while (i < index.size() || j < tensors.size()) {
    const bool only_file =
        i == index.size() || (j < tensors.size() && tensors[j].entry.name < index[i].tensor);
    if (only_file) {
      return Status::Invalid(fmt::format("weight_map lacks tensor {}, which is in {}",
                                         tensors[j].entry.name,
                                         files[static_cast<size_t>(tensors[j].file)].name));
    }
    const bool only_index = j == tensors.size() || index[i].tensor < tensors[j].entry.name;
    if (only_index) {
      return Status::Invalid(fmt::format("weight_map says that tensor {} is in {}; it is not",
                                         Quote(index[i].tensor), index[i].file));
    }
    const std::string& file = files[static_cast<size_t>(tensors[j].file)].name;
    if (index[i].file != file) {
      return Status::Invalid(fmt::format("weight_map says that tensor {} is in {}; it is in {}",
                                         tensors[j].entry.name, index[i].file, file));
    }
    ++i;
    ++j;
  }
  return Status::Ok();
}

}  // namespace

Result<std::string> ReadSideFile(FileSystem& fs, std::string_view path, int64_t max_bytes) {
  SLUICE_TRY(fs.Size(path).status());
  return fs.ReadWhole(path, max_bytes);
}

Result<Checkpoint> Checkpoint::Open(FileSystem& fs, std::string_view folder) {
  Checkpoint checkpoint;
  checkpoint.folder_ = folder;
  SLUICE_TRY(checkpoint.config_text_,
             ReadSideFile(fs, PathOf(folder, kConfigName), limits::kMaxModelConfigBytes));
  const std::string index_path = PathOf(folder, kIndexName);
  Result<std::string> index = ReadSideFile(fs, index_path, limits::kMaxTensorIndexBytes);
  if (index) {
    SLUICE_TRY(checkpoint.OpenShards(fs, *index));
  } else if (index.error().code() == ErrorCode::kNotFound) {
    SLUICE_TRY(checkpoint.OpenFile(fs, std::string(kOnlyFileName)));
    SLUICE_TRY(checkpoint.SortTensors());
  } else {
    return index.error();
  }
  return checkpoint;
}

// One file after another, then everything that concerns several of them.
Status Checkpoint::OpenShards(FileSystem& fs, const std::string& index_text) {
  const auto about_index = [this](Status status) {
    return std::move(status.AddContext(PathOf(folder_, kIndexName)));
  };
  Result<Json> json =
      Json::Parse(index_text, {.text_bytes = limits::kMaxTensorIndexBytes, .depth = kIndexDepth});
  if (!json) return about_index(json.error());
  Result<std::vector<IndexLine>> lines = ReadWeightMap(json->root());
  if (!lines) return about_index(lines.error());
  std::set<std::string_view> names;
  for (const IndexLine& line : *lines) names.insert(line.file);
  if (static_cast<int64_t>(names.size()) > limits::kMaxTensorFiles) {
    return about_index(Status::Invalid(fmt::format(
        "weight_map has {} files, at most {} are allowed", names.size(), limits::kMaxTensorFiles)));
  }
  for (std::string_view name : names) SLUICE_TRY(OpenFile(fs, std::string(name)));
  SLUICE_TRY(SortTensors());
  if (Status status = CompareWithIndex(*lines, tensors_, files_); !status.ok()) {
    return about_index(std::move(status));
  }
  if (Status status = CheckTotal(json->root(), n_data_bytes_); !status.ok()) {
    return about_index(std::move(status));
  }
  return Status::Ok();
}

Status Checkpoint::OpenFile(FileSystem& fs, const std::string& name) {
  const std::string path = PathOf(folder_, name);
  SLUICE_TRY(MappedFile mapped, fs.Map(path));
  Result<std::vector<TensorEntry>> entries = ParseHeader(mapped.bytes());
  if (!entries) return entries.error().AddContext(path);
  if (static_cast<int64_t>(tensors_.size() + entries->size()) > limits::kMaxTensors) {
    return Status::Invalid(
        fmt::format("{}: at most {} tensors are allowed in one model", path, limits::kMaxTensors));
  }
  const auto file = static_cast<int32_t>(files_.size());
  files_.push_back({.name = name, .n_bytes = static_cast<int64_t>(mapped.bytes().size())});
  mapped_.push_back(std::move(mapped));
  for (TensorEntry& entry : *entries) {
    n_data_bytes_ += entry.n_bytes;  // within files, so far below 2^63
    tensors_.push_back({.entry = std::move(entry), .file = file});
  }
  return Status::Ok();
}

Status Checkpoint::SortTensors() {
  std::sort(tensors_.begin(), tensors_.end(),
            [](const Tensor& a, const Tensor& b) { return a.entry.name < b.entry.name; });
  const auto twice = std::adjacent_find(
      tensors_.begin(), tensors_.end(),
      [](const Tensor& a, const Tensor& b) { return a.entry.name == b.entry.name; });
  if (twice == tensors_.end()) return Status::Ok();
  return Status::Invalid(fmt::format("{}: tensor {} is in {} and in {}", folder_, twice->entry.name,
                                     files_[static_cast<size_t>(twice->file)].name,
                                     files_[static_cast<size_t>((twice + 1)->file)].name));
}

TensorView Checkpoint::View(const Tensor& tensor) const {
  const TensorEntry& entry = tensor.entry;
  return {
      .dtype = entry.dtype,
      .shape = &entry.shape,
      .bytes = mapped(tensor.file)
                   .bytes()
                   .subspan(static_cast<size_t>(entry.begin), static_cast<size_t>(entry.n_bytes)),
      .file = tensor.file};
}

const Checkpoint::Tensor* Checkpoint::Find(std::string_view name) const {
  const auto at = std::lower_bound(
      tensors_.begin(), tensors_.end(), name,
      [](const Tensor& tensor, std::string_view n) { return tensor.entry.name < n; });
  return at == tensors_.end() || at->entry.name != name ? nullptr : &*at;
}

void Checkpoint::Drop(ConstBytes bytes) const {
  for (const MappedFile& file : mapped_) file.Drop(bytes);
}

}  // namespace sluice::model
