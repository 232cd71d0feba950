#include "tensor/matrix.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "base/check.h"
#include "tensor/formats.h"

namespace sluice {
namespace {

constexpr int64_t kTile = 32;

int64_t RowBytesOf(const Matrix& matrix) {
  switch (matrix.format) {
    case MatrixFormat::kBf16:
      return matrix.n_in * 2;
    case MatrixFormat::kF32:
      return matrix.n_in * 4;
    case MatrixFormat::kFp8:
      return matrix.n_in;
    case MatrixFormat::kFp4:
      return matrix.n_in / 2;
  }
  return 0;
}

// Scales of one row: those of its tiles, or its own.
const uint8_t* ScalesOf(const Matrix& matrix, int64_t row) {
  const int64_t n_across = (matrix.n_in + kTile - 1) / kTile;
  if (matrix.format == MatrixFormat::kFp8) return matrix.scales + row / kTile * n_across;
  if (matrix.format == MatrixFormat::kFp4) return matrix.scales + row * n_across;
  return nullptr;
}

void DecodeFp8Tile(const uint8_t* codes, float scale, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = FromE4m3(codes[i]) * scale;
}

void DecodeFp4Tile(const uint8_t* codes, float scale, int64_t n, float* out) {
  for (int64_t i = 0; i + 1 < n; i += 2) {
    const uint8_t pair = codes[i / 2];
    out[i] = FromE2m1(pair) * scale;
    out[i + 1] = FromE2m1(static_cast<uint8_t>(pair >> 4)) * scale;
  }
}

}  // namespace

Matrix RowsOf(const Matrix& matrix, int64_t first, int64_t n) {
  SLUICE_CHECK(first % kTile == 0 && first >= 0 && n >= 0 && first + n <= matrix.n_out);
  Matrix part = matrix;
  part.data = static_cast<const std::byte*>(matrix.data) + first * RowBytesOf(matrix);
  part.scales = ScalesOf(matrix, first);
  part.n_out = n;
  return part;
}

void DecodeMatrixPart(const Matrix& matrix, int64_t row, int64_t first, int64_t n, float* out) {
  SLUICE_CHECK(first % kTile == 0);
  const auto* bytes = static_cast<const uint8_t*>(matrix.data) + row * RowBytesOf(matrix);
  switch (matrix.format) {
    case MatrixFormat::kBf16: {
      const Bf16* values = reinterpret_cast<const Bf16*>(bytes) + first;
      for (int64_t i = 0; i < n; ++i) out[i] = ToFloat(values[i]);
      break;
    }
    case MatrixFormat::kF32:
      std::memcpy(out, bytes + first * 4, static_cast<size_t>(n) * 4);
      break;
    case MatrixFormat::kFp8:
    case MatrixFormat::kFp4:
      for (int64_t tile = first; tile < first + n; tile += kTile) {
        const float scale = FromE8m0(ScalesOf(matrix, row)[tile / kTile]);
        const int64_t n_here = std::min(kTile, first + n - tile);
        if (matrix.format == MatrixFormat::kFp8) {
          DecodeFp8Tile(bytes + tile, scale, n_here, out + (tile - first));
        } else {
          DecodeFp4Tile(bytes + tile / 2, scale, n_here, out + (tile - first));
        }
      }
      break;
  }
}

void DecodeMatrixRow(const Matrix& matrix, int64_t row, float* out) {
  DecodeMatrixPart(matrix, row, 0, matrix.n_in, out);
}

}  // namespace sluice
