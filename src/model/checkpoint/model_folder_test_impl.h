// ModelFolder: a temporary folder in which a test writes checkpoints, right ones and wrong ones.
// Owned by the test that made it.

#pragma once

#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/json_writer.h"
#include "model/checkpoint/safetensors.h"

namespace sluice::model {

class ModelFolder {
 public:
  // `parent` ends with a slash.
  explicit ModelFolder(const std::string& parent = "/tmp/")
      : path_(parent + "sluice_model_XXXXXX") {
    SLUICE_CHECK(mkdtemp(path_.data()) != nullptr);
  }
  ~ModelFolder() { SLUICE_CHECK(std::system(("rm -r " + path_).c_str()) == 0); }
  ModelFolder(const ModelFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string PathOf(const std::string& name) const { return path_ + "/" + name; }

  void Write(const std::string& name, std::string_view content) const {
    std::ofstream(PathOf(name), std::ios::binary) << content;
  }
  // Overwrites bytes of a file that is there.
  void Patch(const std::string& name, int64_t offset, std::string_view content) const {
    std::fstream file(PathOf(name), std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(offset);
    file << content;
    SLUICE_CHECK(file.good());
  }
  // A file of `n_bytes` that begins with `content`; the rest reads as zeros and takes no disk.
  void WriteSparse(const std::string& name, std::string_view content, int64_t n_bytes) const {
    std::ofstream file(PathOf(name), std::ios::binary);
    file << content;
    if (n_bytes > static_cast<int64_t>(content.size())) {
      file.seekp(n_bytes - 1);
      file.put('\0');
    }
    SLUICE_CHECK(file.good());
  }

  // model.safetensors.index.json of {tensor, file}.
  void WriteIndex(const std::vector<std::pair<std::string, std::string>>& weight_map,
                  int64_t total_size) const {
    std::string text;
    JsonWriter w(text);
    w.Object();
    w.Key("metadata").Object().Key("total_size").Int(total_size).EndObject();
    w.Key("weight_map").Object();
    for (const auto& [tensor, file] : weight_map) w.Key(tensor).String(file);
    w.EndObject().EndObject();
    Write("model.safetensors.index.json", text);
  }

 private:
  std::string path_;
};

// A safetensors file: a header text, which may be wrong, and its data.
inline std::string FileWithHeader(std::string_view header, std::string_view data) {
  std::string file;
  for (int i = 0; i < 8; ++i) file += static_cast<char>(header.size() >> (8 * i));
  return file.append(header).append(data);
}

inline int64_t DataBytes(const TensorToWrite& tensor) {
  int64_t n_bytes = SizeOf(tensor.dtype);
  for (int64_t n : tensor.shape) n_bytes *= n;
  return n_bytes;
}

}  // namespace sluice::model
