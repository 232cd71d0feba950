// RandomCheckpoint: writes a model folder in the official layout with random weights: config.json,
// model.safetensors or shards of it with their index, and side files. Whoever made it calls Step
// until done, and may tell of the progress in between, as with ValueCheck.
//
// Owned by one thread. A few MiB of memory, whatever the size of the model.
//
// 1. The bytes depend on the config, the gain and the seed alone.
// 2. A file has its final name only when it is complete, and config.json, without which a folder is
//    no model, comes last. So nothing that was cut short is ever taken for a model.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "env/file_system.h"
#include "model/deepseek_v41/config.h"
#include "model/deepseek_v41/random_tensor.h"
#include "model/deepseek_v41/tensor_list.h"
#include "tensor/thread_team.h"

namespace sluice::model::deepseek_v41 {

struct SideFile {
  std::string name;  // within the folder
  std::string text;
};

class RandomCheckpoint {
 public:
  struct Params {
    Config config;
    RandomSource source;
    std::string folder;
    std::vector<SideFile> side_files;
    int32_t n_threads = 1;
    // A file is closed before it would become larger; one tensor always fits.
    int64_t shard_bytes = 4 * kGiB;
  };

  // `fs` outlives this. Touches no file.
  RandomCheckpoint(FileSystem& fs, Params params);
  // First: makes the folder if it is not there. kInvalidArgument for one with something in it,
  // kTooLarge when the disk has not enough room; no file has been written then.
  Status Begin();

  bool done() const { return is_done_; }
  // The next piece, a few MiB. After an error the folder is to be thrown away.
  Status Step();

  // Of tensors.
  int64_t done_bytes() const { return done_bytes_; }
  int64_t total_bytes() const { return total_bytes_; }
  int64_t n_tensors() const { return static_cast<int64_t>(tensors_.size()); }
  int64_t n_files() const { return static_cast<int64_t>(shards_.size()); }

 private:
  struct Shard {
    std::string name;
    std::vector<size_t> tensors;  // indexes, in the order of the file
  };

  void PlanShards();
  int64_t MostBytes() const;
  Status BeginShard();
  Status WriteSlabs();
  Status FinishShard();
  Status WriteRest();
  Status WriteFile(std::string_view name, std::string_view text);
  std::string IndexText() const;
  const TensorSpec& CodesOf(size_t index) const;
  std::string PathOf(std::string_view name) const;

  FileSystem& fs_;
  const Params params_;
  const std::vector<TensorSpec> tensors_;
  std::vector<Shard> shards_;
  int64_t total_bytes_ = 0;

  ThreadTeam team_;
  std::vector<std::byte> buffer_;
  // Where we are.
  bool has_begun_ = false;
  size_t shard_ = 0;
  size_t next_ = 0;  // index into the shard's tensors
  int64_t slab_ = 0;
  std::unique_ptr<FileWriter> writer_;    // of the shard
  std::unique_ptr<RandomTensor> tensor_;  // that is being written
  int64_t done_bytes_ = 0;
  bool is_done_ = false;
};

}  // namespace sluice::model::deepseek_v41
