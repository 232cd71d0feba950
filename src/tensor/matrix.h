// Matrix: a weight as the checkpoint stores it, seen and not copied. x W^T with W [n_out, n_in].

#pragma once

#include <cstdint>

namespace sluice {

enum class MatrixFormat : uint8_t {
  kBf16,
  kF32,
  kFp8,  // E4M3, an E8M0 scale per tile of 32 x 32; scales [ceil(n_out/32), ceil(n_in/32)]
  kFp4,  // E2M1, two per byte, low nibble = even input; scales [n_out, n_in/32]
};

// Inputs of these formats are quantised first (AQ8, spec model.md §3.0).
constexpr bool IsQuantized(MatrixFormat format) {
  return format == MatrixFormat::kFp8 || format == MatrixFormat::kFp4;
}

struct Matrix {
  MatrixFormat format = MatrixFormat::kBf16;
  const void* data = nullptr;
  const uint8_t* scales = nullptr;  // E8M0; null unless quantised
  int64_t n_out = 0;
  int64_t n_in = 0;
};

// Rows [first, first + n) as a matrix of their own; first is a multiple of 32.
Matrix RowsOf(const Matrix& matrix, int64_t first, int64_t n);

// Inputs [first, first + n) of row `row` as floats: code * scale, exact in bf16 for every format
// but kF32. first is a multiple of 32.
void DecodeMatrixPart(const Matrix& matrix, int64_t row, int64_t first, int64_t n, float* out);
// The whole row [n_in].
void DecodeMatrixRow(const Matrix& matrix, int64_t row, float* out);

}  // namespace sluice
