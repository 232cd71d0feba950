// A golden folder: a checkpoint, the values an independent implementation computed from it, and the
// tokens it used.

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "env/file_system.h"
#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/safetensors.h"
#include "model/deepseek_v41/deepseek_v41.h"
#include "tensor/buffer.h"
#include "tensor/dtype.h"

namespace sluice::conformance {

struct Tensor {
  DType dtype = DType::kF32;
  model::Shape shape;
  std::vector<uint8_t> bytes;

  int64_t n_values() const;
  int64_t n_rows() const { return shape.empty() ? 1 : shape[0]; }
  float Value(int64_t i) const;  // of any dtype; integers are exact up to 2^24
  template <typename T>
  std::span<const T> span() const {
    return {as<T>(), static_cast<size_t>(n_values())};
  }
  template <typename T>
  const T* as() const {
    return reinterpret_cast<const T*>(bytes.data());
  }
};

struct Golden {
  static Result<std::unique_ptr<Golden>> Open(FileSystem& fs, const std::string& folder);

  bool has(const std::string& name) const { return tensors.count(name) != 0; }

  std::map<std::string, Tensor> tensors;
  std::vector<TokenId> prompt;
  std::vector<TokenId> image_prompt;
  std::unique_ptr<model::Checkpoint> checkpoint;
  Buffer packed;  // what of the weights kernels read in an order of their own
  std::unique_ptr<model::deepseek_v41::DeepseekV41> model;
};

}  // namespace sluice::conformance
