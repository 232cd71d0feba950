#include "model/deepseek_v41/random_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/json_writer.h"
#include "model/checkpoint/safetensors.h"
#include "model/deepseek_v41/presets.h"

namespace sluice::model::deepseek_v41 {
namespace {

// Large enough that threads have work and the disk long writes.
constexpr int64_t kStepBytes = 4 << 20;
// Less than this is done before the threads of the team have come.
constexpr int64_t kTeamBytes = 512 << 10;
// At most, of a tensor in the headers and the index.
constexpr int64_t kEntryBytes = 512;

ConstBytes BytesOf(std::string_view text) { return std::as_bytes(std::span(text)); }

Status CheckEmpty(FileSystem& fs, const std::string& folder) {
  SLUICE_TRY(const std::vector<std::string> names, fs.List(folder));
  if (names.empty()) return Status::Ok();
  return Status::Invalid(
      fmt::format("{}: is not empty; it has {}. Name a new folder", folder, names.front()));
}

}  // namespace

RandomCheckpoint::RandomCheckpoint(FileSystem& fs, Params params)
    : fs_(fs),
      params_(std::move(params)),
      tensors_(ListTensors(params_.config)),
      team_(params_.n_threads) {
  SLUICE_CHECK(params_.shard_bytes > 0);
  for (const TensorSpec& tensor : tensors_) total_bytes_ += tensor.n_bytes();
  PlanShards();
}

// Of everything that will be written, rounded up.
int64_t RandomCheckpoint::MostBytes() const {
  int64_t n_bytes = total_bytes_ + kEntryBytes * (n_tensors() + n_files());
  for (const SideFile& file : params_.side_files) {
    n_bytes += static_cast<int64_t>(file.text.size());
  }
  return n_bytes;
}

Status RandomCheckpoint::Begin() {
  SLUICE_TRY(fs_.MakeFolder(params_.folder));
  SLUICE_TRY(CheckEmpty(fs_, params_.folder));
  SLUICE_TRY(const int64_t n_free, fs_.FreeBytes(params_.folder));
  if (n_free < MostBytes()) {
    return {ErrorCode::kTooLarge,
            fmt::format("{}: the model needs {} bytes, and the disk has {} left", params_.folder,
                        MostBytes(), n_free)};
  }
  has_begun_ = true;
  return Status::Ok();
}

// Tensors go to files in the order of the list. Within a file those of wide types come first, so
// that every value is aligned.
void RandomCheckpoint::PlanShards() {
  int64_t n_bytes = 0;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const int64_t n = tensors_[i].n_bytes();
    if (shards_.empty() || n_bytes + n > params_.shard_bytes) {
      shards_.emplace_back();
      n_bytes = 0;
    }
    shards_.back().tensors.push_back(i);
    n_bytes += n;
  }
  for (size_t i = 0; i < shards_.size(); ++i) {
    shards_[i].name = shards_.size() == 1
                          ? "model.safetensors"
                          : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards_.size());
    std::sort(shards_[i].tensors.begin(), shards_[i].tensors.end(), [this](size_t a, size_t b) {
      const int64_t a_bytes = SizeOf(tensors_[a].dtype), b_bytes = SizeOf(tensors_[b].dtype);
      return a_bytes != b_bytes ? a_bytes > b_bytes : a < b;
    });
  }
}

std::string RandomCheckpoint::PathOf(std::string_view name) const {
  return fmt::format("{}/{}", params_.folder, name);
}

// Scales follow their codes in the list.
const TensorSpec& RandomCheckpoint::CodesOf(size_t index) const {
  return tensors_[tensors_[index].encoding == Encoding::kScales ? index - 1 : index];
}

Status RandomCheckpoint::Step() {
  SLUICE_CHECK(has_begun_ && !is_done_);
  if (shard_ == shards_.size()) return WriteRest();
  if (!writer_) return BeginShard();
  if (next_ == shards_[shard_].tensors.size()) return FinishShard();
  return WriteSlabs();
}

Status RandomCheckpoint::BeginShard() {
  const Shard& shard = shards_[shard_];
  SLUICE_TRY(writer_, fs_.Create(PathOf(shard.name)));
  std::vector<TensorToWrite> entries;
  for (const size_t i : shard.tensors) {
    entries.push_back(
        {.name = tensors_[i].name, .dtype = tensors_[i].dtype, .shape = tensors_[i].shape});
  }
  return writer_->Append(BytesOf(MakeHeader(entries)));
}

Status RandomCheckpoint::WriteSlabs() {
  const size_t index = shards_[shard_].tensors[next_];
  if (!tensor_) {
    tensor_ = std::make_unique<RandomTensor>(tensors_[index], CodesOf(index), params_.source);
    slab_ = 0;
  }
  const int64_t n_fit = kStepBytes / tensor_->SlabBytes(slab_, slab_ + 1);
  const int64_t n = std::min(std::max<int64_t>(n_fit, 1), tensor_->n_slabs() - slab_);
  buffer_.resize(static_cast<size_t>(tensor_->SlabBytes(slab_, slab_ + n)));
  const auto fill = [this](int64_t begin, int64_t end, int32_t) {
    tensor_->Fill(slab_ + begin, slab_ + end,
                  buffer_.data() + tensor_->SlabBytes(slab_, slab_ + begin));
  };
  if (std::ssize(buffer_) < kTeamBytes) {
    fill(0, n, 0);
  } else {
    team_.Run(n, fill);
  }
  SLUICE_TRY(writer_->Append(buffer_));
  done_bytes_ += static_cast<int64_t>(buffer_.size());
  slab_ += n;
  if (slab_ == tensor_->n_slabs()) {
    tensor_.reset();
    ++next_;
  }
  return Status::Ok();
}

Status RandomCheckpoint::FinishShard() {
  SLUICE_TRY(writer_->Finish());
  writer_.reset();
  ++shard_;
  next_ = 0;
  return Status::Ok();
}

std::string RandomCheckpoint::IndexText() const {
  std::string text;
  JsonWriter w(text);
  w.Object();
  w.Key("metadata").Object().Key("total_size").Int(total_bytes_).EndObject();
  w.Key("weight_map").Object();
  for (const Shard& shard : shards_) {
    for (const size_t i : shard.tensors) w.Key(tensors_[i].name).String(shard.name);
  }
  w.EndObject().EndObject();
  return text;
}

Status RandomCheckpoint::WriteFile(std::string_view name, std::string_view text) {
  SLUICE_TRY(std::unique_ptr<FileWriter> writer, fs_.Create(PathOf(name)));
  SLUICE_TRY(writer->Append(BytesOf(text)));
  return writer->Finish();
}

Status RandomCheckpoint::WriteRest() {
  if (shards_.size() > 1) SLUICE_TRY(WriteFile("model.safetensors.index.json", IndexText()));
  for (const SideFile& file : params_.side_files) SLUICE_TRY(WriteFile(file.name, file.text));
  SLUICE_TRY(WriteFile("config.json", ConfigText(params_.config)));
  is_done_ = true;
  return Status::Ok();
}

}  // namespace sluice::model::deepseek_v41
