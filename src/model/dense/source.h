// Source: the file or the folder of a dense model, mapped and not read: its config, and its tensors
// as matrices, whatever file they come from.
//
// Thread-compatible; immutable after Open. Views point into it and must not outlive it.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "env/file_system.h"
#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/gguf.h"
#include "model/checkpoint/model_place.h"
#include "model/dense/config.h"
#include "model/dense/tensor_list.h"
#include "tensor/matrix.h"

namespace sluice::model::dense {

struct StoredTensor {
  std::string name;
  Shape shape;
  Matrix matrix;      // one dimension is a single row
  int32_t file = 0;   // index into files()
  int64_t begin = 0;  // bytes from the beginning of the file
  ConstBytes bytes;
};

class Source {
 public:
  // kInvalidArgument or kUnsupported, naming file, field or tensor: for what is no model of this
  // family, and for a tensor that is no matrix of a known format.
  static Result<Source> Open(FileSystem& fs, const ModelPlace& place);

  const Config& config() const { return config_; }
  Naming naming() const { return naming_; }
  const std::string& path() const { return path_; }  // of the folder, or of the only file
  struct File {
    std::string name;
    int64_t n_bytes = 0;
  };
  const std::vector<File>& files() const { return files_; }
  const std::vector<StoredTensor>& tensors() const { return tensors_; }  // by name
  const StoredTensor* Find(std::string_view name) const;                 // null: there is none
  // These bytes of a tensor will not be read again soon: their memory may go.
  void Drop(ConstBytes bytes) const;

 private:
  Source() = default;
  Status OpenFolder(FileSystem& fs, const std::string& folder);
  Status OpenGguf(FileSystem& fs, const std::string& path);

  std::variant<std::monostate, Checkpoint, GgufFile> mapped_;
  std::string path_;
  Config config_;
  Naming naming_ = Naming::kHuggingFace;
  std::vector<File> files_;
  std::vector<StoredTensor> tensors_;
};

}  // namespace sluice::model::dense
