// Reads the tensors of a golden file for tests. Not for anything from outside: it trusts the file.
// Only for tests, which link nlohmann-json; that is why it is a header. Immutable, so thread-safe.

#pragma once

#include <cstdint>
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/check.h"

namespace sluice::harness {

struct GoldenTensor {
  std::string dtype;  // as in the file
  std::vector<int64_t> shape;
  std::vector<uint8_t> bytes;

  template <typename T>
  const T* as() const {
    return reinterpret_cast<const T*>(bytes.data());
  }
  int64_t n_values() const {
    int64_t n = 1;
    for (const int64_t d : shape) n *= d;
    return n;
  }
};

// By name. Ends the test program when the file is missing or broken.
class GoldenFile {
 public:
  explicit GoldenFile(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    SLUICE_CHECK(file.good());
    uint64_t header_bytes = 0;  // little-endian, as this machine is
    file.read(reinterpret_cast<char*>(&header_bytes), sizeof header_bytes);
    std::string header(header_bytes, '\0');
    file.read(header.data(), static_cast<std::streamsize>(header_bytes));
    const int64_t data_begin = static_cast<int64_t>(sizeof header_bytes + header_bytes);
    const nlohmann::json entries = nlohmann::json::parse(header);  // items() only refers to it
    for (const auto& [name, entry] : entries.items()) {
      if (name == "__metadata__") continue;
      GoldenTensor& tensor = tensors_[name];
      tensor.dtype = entry.at("dtype");
      tensor.shape = entry.at("shape").get<std::vector<int64_t>>();
      const int64_t begin = entry.at("data_offsets").at(0);
      const int64_t end = entry.at("data_offsets").at(1);
      tensor.bytes.resize(static_cast<size_t>(end - begin));
      file.seekg(data_begin + begin);
      file.read(reinterpret_cast<char*>(tensor.bytes.data()), end - begin);
    }
    SLUICE_CHECK(file.good());
  }

  const GoldenTensor& operator[](const std::string& name) const {
    const auto found = tensors_.find(name);
    SLUICE_CHECK(found != tensors_.end());
    return found->second;
  }
  bool has(const std::string& name) const { return tensors_.count(name) != 0; }

 private:
  std::map<std::string, GoldenTensor> tensors_;
};

// tests/golden/tables/tables.safetensors: number formats, quantisers, constants and selections of
// the released model, made by an independent implementation (its README lists them).
inline const GoldenFile& Tables() {
  static const GoldenFile file(std::string(SLUICE_SOURCE_DIR) +
                               "/tests/golden/tables/tables.safetensors");
  return file;
}

}  // namespace sluice::harness
