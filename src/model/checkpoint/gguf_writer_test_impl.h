// GgufWriter: makes GGUF files for tests, right ones and wrong ones: counts, alignment and offsets
// are what one says. Owned by the test that made it.

#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/bytes.h"
#include "model/checkpoint/gguf.h"

namespace sluice::model {

class GgufWriter {
 public:
  uint32_t version = 3;
  std::optional<uint64_t> n_tensors;  // else as many as were added
  std::optional<uint64_t> n_keys;
  uint64_t alignment = 32;  // of tensors; a file that says so has the key, too

  // A value of a type whose bytes are those of T.
  template <typename T>
  GgufWriter& Key(std::string_view key, GgufType type, T value) {
    BeginKey(key, type);
    Append(keys_, value);
    return *this;
  }
  GgufWriter& Text(std::string_view key, std::string_view value) {
    BeginKey(key, GgufType::kString);
    AppendText(keys_, value);
    return *this;
  }
  template <typename T>
  GgufWriter& List(std::string_view key,
                   GgufType element,
                   const std::vector<T>& values,
                   std::optional<uint64_t> claimed = {}) {
    BeginKey(key, GgufType::kList);
    Append(keys_, static_cast<uint32_t>(element));
    Append(keys_, claimed.value_or(values.size()));
    for (const T& value : values) {
      if constexpr (std::is_same_v<T, std::string>) {
        AppendText(keys_, value);
      } else {
        Append(keys_, value);
      }
    }
    return *this;
  }

  // dims in the file's order, the innermost first. Its data go behind those of the tensor before,
  // or to `offset`.
  GgufWriter& Tensor(std::string_view name,
                     uint32_t type,
                     const std::vector<uint64_t>& dims,
                     std::string_view data,
                     std::optional<uint64_t> offset = {}) {
    while (data_.size() % alignment != 0) data_ += '\0';
    AppendText(tensors_, name);
    Append(tensors_, static_cast<uint32_t>(dims.size()));
    for (const uint64_t n : dims) Append(tensors_, n);
    Append(tensors_, type);
    Append(tensors_, offset.value_or(data_.size()));
    data_ += data;
    ++n_tensors_added_;
    return *this;
  }

  // Without data: everything up to them, not padded.
  std::string Head() const {
    std::string file = "GGUF";
    Append(file, version);
    Append(file, n_tensors.value_or(n_tensors_added_));
    Append(file, n_keys.value_or(n_keys_added_));
    return file + keys_ + tensors_;
  }
  std::string File() const {
    std::string file = Head();
    while (file.size() % alignment != 0) file += '\0';
    return file + data_;
  }

  template <typename T>
  static void Append(std::string& bytes, T value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  static void AppendText(std::string& bytes, std::string_view text) {
    Append(bytes, uint64_t{text.size()});
    bytes.append(text);
  }

 private:
  void BeginKey(std::string_view key, GgufType type) {
    AppendText(keys_, key);
    Append(keys_, static_cast<uint32_t>(type));
    ++n_keys_added_;
  }

  std::string keys_;
  std::string tensors_;
  std::string data_;
  uint64_t n_keys_added_ = 0;
  uint64_t n_tensors_added_ = 0;
};

inline ConstBytes BytesOfText(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

}  // namespace sluice::model
