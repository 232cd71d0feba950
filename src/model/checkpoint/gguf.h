// GgufFile: a GGUF file of version 2 or 3, mapped and not read: its metadata by key and its tensors
// by name.
//
//   "GGUF", u32 version, u64 tensors, u64 keys, {key, type, value},
//   {name, dimensions, type, offset}, padding to general.alignment, tensor data
//   (ggml's docs/gguf.md; all little-endian)
//
// Everything in it is untrusted. Behind Parse the following holds:
//
// 1. Keys and names of tensors are plain (untrusted_text.h), each once.
// 2. Every value lies within the file and within the limits of base/limits.def; lists hold no
//    lists.
// 3. Every tensor has 1 to 4 dimensions of at least 1, a format of MatrixFormat, rows of whole
//    blocks, and begins at a multiple of general.alignment, itself a power of two from 8 on.
// 4. Tensors lie within the file and share no byte.
//
// Thread-compatible; immutable. Views point into the file and must not outlive it. A file that is
// cut short while it is mapped ends the process (SIGBUS), as env/file_system.h says.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "env/file_system.h"
#include "model/checkpoint/safetensors.h"
#include "tensor/matrix.h"

namespace sluice::model {

enum class GgufType : uint8_t {  // the numbers of the format
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kString,
  kList,
  kU64,
  kI64,
  kF64,
};

struct GgufTensor {
  std::string_view name;
  MatrixFormat format = MatrixFormat::kF32;
  Shape shape;  // outermost first, so a matrix is [n_out, n_in]: the reverse of the file's order
  int64_t begin = 0;  // bytes from the beginning of the file
  int64_t n_bytes = 0;
};

class GgufFile {
 public:
  // Maps and parses. Errors name the path.
  static Result<GgufFile> Open(FileSystem& fs, std::string_view path);

  // `file` is the whole content and must outlive the result. kInvalidArgument, or kUnsupported for
  // what other programs may read (version 1, big-endian, split files, tensor types not in
  // MatrixFormat), with key or tensor, value and what is allowed. Reads everything but tensor data.
  static Result<GgufFile> Parse(ConstBytes file);

  bool Has(std::string_view key) const { return Find(key) != nullptr; }

  // The value of a key. kNotFound if it is missing (ask Has for what may be), kInvalidArgument for
  // another type or a value out of range; errors name the key, what it has and what is wanted.
  Result<std::string_view> String(std::string_view key) const;  // any bytes
  Result<int64_t> Integer(std::string_view key) const;          // of any width, up to 2^63 - 1
  Result<double> Float(std::string_view key) const;             // of any width, finite
  Result<bool> Bool(std::string_view key) const;
  // Lists; elements as above.
  Result<std::vector<std::string_view>> Strings(std::string_view key) const;
  Result<std::vector<int64_t>> Integers(std::string_view key) const;

  // All keys and where their values stand, sorted: what the fuzzer asks for.
  struct Entry {
    std::string_view key;
    GgufType type = GgufType::kU8;
    GgufType element = GgufType::kU8;  // of a list
    int64_t n = 1;                     // values of a list
    int64_t begin = 0;                 // of the value, or of the first of a list
  };
  const std::vector<Entry>& entries() const { return entries_; }

  const std::vector<GgufTensor>& tensors() const { return tensors_; }  // by name
  const GgufTensor* FindTensor(std::string_view name) const;           // null: there is none
  ConstBytes BytesOf(const GgufTensor& tensor) const;
  // These bytes of a tensor will not be read again soon: their memory may go.
  void Drop(ConstBytes bytes) const { mapped_.Drop(bytes); }
  // A tensor of one or two dimensions; one dimension is a single row.
  Matrix MatrixOf(const GgufTensor& tensor) const;

 private:
  GgufFile() = default;
  const Entry* Find(std::string_view key) const;
  Result<const Entry*> Need(std::string_view key,
                            std::string_view wanted,
                            bool is_list,
                            bool (*is_wanted)(GgufType)) const;
  Status CheckSplit() const;
  Status ReadTensors(int64_t n_tensors, int64_t at);

  MappedFile mapped_;  // empty for a file that was parsed from memory
  ConstBytes file_;
  std::vector<Entry> entries_;       // by key
  std::vector<GgufTensor> tensors_;  // by name
};

// kCorrupt if one of the rows [first, first + n) of a weight holds an infinity or NaN, as a
// value or as a scale; names tensor, row and value or block. Reads these rows once, so that a
// caller can go through a model in steps.
Status CheckFinite(std::string_view name, const Matrix& matrix, int64_t first, int64_t n);

}  // namespace sluice::model
