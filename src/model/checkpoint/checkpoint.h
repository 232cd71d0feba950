// Checkpoint: a folder in the official layout, mapped and not read: config.json, and either
// model.safetensors.index.json with its shards or model.safetensors alone.
//
// Thread-compatible; immutable after Open. Views point into it and must not outlive it. Bytes are
// read when somebody looks at them; a file that is cut short while it is mapped ends the process
// (SIGBUS), as env/file_system.h says.
//
// 1. The index and the headers name the same tensors in the same files; every name once.
// 2. The data sizes add up to the index's total_size, if it has one.
// 3. No file outside the folder is opened, and nothing from it is interpreted as code.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "env/file_system.h"
#include "model/checkpoint/safetensors.h"
#include "tensor/dtype.h"

namespace sluice::model {

struct TensorView {
  DType dtype = DType::kBf16;
  const Shape* shape = nullptr;
  ConstBytes bytes;
  int32_t file = 0;  // index into files()
};

// The whole of a text file of a model folder, config.json or another. Errors name the file. A pipe
// is none: one that nobody writes to would be waited for.
Result<std::string> ReadSideFile(FileSystem& fs, std::string_view path, int64_t max_bytes);

class Checkpoint {
 public:
  // Maps every file of the folder and checks 1 and 2 above. Errors name the file.
  static Result<Checkpoint> Open(FileSystem& fs, std::string_view folder);

  struct File {
    std::string name;  // within the folder
    int64_t n_bytes = 0;
  };
  struct Tensor {
    TensorEntry entry;
    int32_t file = 0;
  };

  const std::string& folder() const { return folder_; }
  const std::string& config_text() const { return config_text_; }
  const std::vector<File>& files() const { return files_; }        // by name
  const std::vector<Tensor>& tensors() const { return tensors_; }  // by name
  int64_t n_data_bytes() const { return n_data_bytes_; }           // of all tensors

  TensorView View(const Tensor& tensor) const;
  const Tensor* Find(std::string_view name) const;  // null: there is none
  const MappedFile& mapped(int32_t file) const { return mapped_[static_cast<size_t>(file)]; }
  // These bytes of a tensor will not be read again soon: their memory may go.
  void Drop(ConstBytes bytes) const;

 private:
  Checkpoint() = default;
  Status OpenShards(FileSystem& fs, const std::string& index_text);
  Status OpenFile(FileSystem& fs, const std::string& name);
  Status SortTensors();

  std::string folder_;
  std::string config_text_;
  std::vector<File> files_;
  std::vector<MappedFile> mapped_;  // of files_
  std::vector<Tensor> tensors_;
  int64_t n_data_bytes_ = 0;
};

}  // namespace sluice::model
