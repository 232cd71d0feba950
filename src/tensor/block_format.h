// Blocks of GGUF files: codes of one row in a fixed number of bytes, with their scales (ggml's
// ggml-common.h and gguf-py's quants.py tell the same layouts). Pure functions.
//
//   value = scale * code            Q4_0 Q5_0 Q8_0 Q6_K
//   value = scale * code + min      Q4_1 Q5_1 Q4_K Q5_K
//
// Product and sum are each rounded to float32: the values of the Python package gguf, to the bit.
// Codes are whole numbers of at most 8 bits, so exact in bf16. Scales and minima are f16, or in the
// K formats f16 times a small whole number, which is exact in float32.

#pragma once

#include <cstdint>

#include "tensor/matrix.h"

namespace sluice {

inline constexpr int32_t kMaxBlockValues = 256;
inline constexpr int32_t kMaxBlockGroups = 16;

struct BlockShape {
  int32_t n_values;  // of one block
  int32_t n_bytes;
  int32_t group;  // values that share a scale, and a min
  bool has_min;
};

// For a block format.
constexpr BlockShape ShapeOf(MatrixFormat format) {
  switch (format) {
    case MatrixFormat::kQ4_0:
      return {.n_values = 32, .n_bytes = 18, .group = 32, .has_min = false};
    case MatrixFormat::kQ4_1:
      return {.n_values = 32, .n_bytes = 20, .group = 32, .has_min = true};
    case MatrixFormat::kQ5_0:
      return {.n_values = 32, .n_bytes = 22, .group = 32, .has_min = false};
    case MatrixFormat::kQ5_1:
      return {.n_values = 32, .n_bytes = 24, .group = 32, .has_min = true};
    case MatrixFormat::kQ8_0:
      return {.n_values = 32, .n_bytes = 34, .group = 32, .has_min = false};
    case MatrixFormat::kQ4K:
      return {.n_values = 256, .n_bytes = 144, .group = 32, .has_min = true};
    case MatrixFormat::kQ5K:
      return {.n_values = 256, .n_bytes = 176, .group = 32, .has_min = true};
    case MatrixFormat::kQ6K:
      return {.n_values = 256, .n_bytes = 210, .group = 16, .has_min = false};
    default:
      return {.n_values = 1, .n_bytes = 0, .group = 1, .has_min = false};
  }
}

// The values of one block, [n_values].
void DecodeBlock(MatrixFormat format, const uint8_t* block, float* out);

// Whether every f16 number of the block is finite; the codes always are.
bool HasFiniteScales(MatrixFormat format, const uint8_t* block);

}  // namespace sluice
