// Matrix: a weight, seen and not copied: as the checkpoint stores it, or packed. x W^T with
// W [n_out, n_in].

#pragma once

#include <cstdint>
#include <string_view>

namespace sluice {

enum class MatrixFormat : uint8_t {
  kBf16,
  kF32,
  kFp8,  // E4M3, an E8M0 scale per tile of 32 x 32; scales [ceil(n_out/32), ceil(n_in/32)]
  kFp4,  // E2M1, two per byte, low nibble = even input; scales [n_out, n_in/32]
  kF16,
  // Blocks that hold codes and their scales together, as GGUF files do (block_format.h). A row is
  // a whole number of blocks.
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ4K,
  kQ5K,
  kQ6K,
};

// "F16", "Q4_1", "Q6_K", ...: the spelling of checkpoints.
std::string_view NameOf(MatrixFormat format);

constexpr bool IsBlockFormat(MatrixFormat format) { return format >= MatrixFormat::kQ4_0; }

// Inputs of these formats are quantised first (AQ8, spec model.md §3.0).
constexpr bool IsQuantized(MatrixFormat format) {
  return format == MatrixFormat::kFp8 || format == MatrixFormat::kFp4;
}

enum class MatrixLayout : uint8_t {
  kRows,    // row after row, as checkpoints have them
  kPacked,  // as kernels read them (packed.h)
};

struct Matrix {
  MatrixFormat format = MatrixFormat::kBf16;
  MatrixLayout layout = MatrixLayout::kRows;
  const void* data = nullptr;
  const uint8_t* scales = nullptr;  // E8M0; null unless FP8, or FP4 in rows
  int64_t n_out = 0;
  int64_t n_in = 0;
};

// Rows [first, first + n) as a matrix of their own; first is a multiple of 32, of a packed matrix
// of the rows of its records.
Matrix RowsOf(const Matrix& matrix, int64_t first, int64_t n);

// Bytes of one row of data in rows.
int64_t RowBytesOf(const Matrix& matrix);

// Inputs [first, first + n) of row `row` as floats. FP8 and FP4: code * scale, exact in bf16;
// blocks: code * scale + min, as the Python package gguf computes them. first is a multiple of 32.
void DecodeMatrixPart(const Matrix& matrix, int64_t row, int64_t first, int64_t n, float* out);
// The whole row [n_in].
void DecodeMatrixRow(const Matrix& matrix, int64_t row, float* out);

// Where rows [first, first + n) hold something that is infinite or NaN: the index of the value in
// its row, in a block format that of the block (one of its scales). Not for FP8 and FP4.
struct MatrixPlace {
  int64_t row = -1;  // nowhere
  int64_t index = 0;
};
MatrixPlace FindNonFinite(const Matrix& matrix, int64_t first, int64_t n);

}  // namespace sluice
