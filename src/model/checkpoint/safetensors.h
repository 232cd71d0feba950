// One safetensors file: the header parsed into a bounded struct, and written.
//
//   u64 little-endian header length, JSON {name: {dtype, shape, data_offsets: [begin, end]}}, data
//
// Everything in it is untrusted. Behind ParseHeader the following holds:
//
// 1. Names are unique, at most kMaxTensorNameBytes long, and sorted.
// 2. end - begin of a tensor is what its dtype and shape need, in 64 bits without overflow.
// 3. The tensors cover the data without overlap and without a hole, and the data ends with the
// file.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "tensor/dtype.h"

namespace sluice::model {

using Shape = std::vector<int64_t>;

// "[4, 5120]".
std::string ToString(const Shape& shape);

struct TensorEntry {
  std::string name;
  DType dtype = DType::kBf16;
  Shape shape;
  int64_t begin = 0;  // bytes from the beginning of the file
  int64_t n_bytes = 0;
};

// The header of a file whose whole content is `file`. kInvalidArgument or kUnsupported (a dtype
// that no model here uses) with the tensor, the value and what is allowed; the caller adds the
// file's name. Reads the header only.
Result<std::vector<TensorEntry>> ParseHeader(ConstBytes file);

// What a writer says of a tensor; its bytes follow in the same order without gaps.
struct TensorToWrite {
  std::string_view name;
  DType dtype = DType::kBf16;
  Shape shape;
};

// Length and JSON, padded with spaces so that the data begin at a multiple of 8 bytes. Names must
// be UTF-8 and differ; sizes must fit 63 bits. Values are aligned if wide dtypes come first.
std::string MakeHeader(const std::vector<TensorToWrite>& tensors);

}  // namespace sluice::model
