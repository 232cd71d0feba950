#include "tensor/matrix.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "base/check.h"
#include "tensor/block_format.h"
#include "tensor/formats.h"
#include "tensor/packed.h"

namespace sluice {
namespace {

constexpr int64_t kTile = 32;

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

// Whole blocks into a buffer, of which the part that is asked for is taken.
void DecodeBlocks(MatrixFormat format, const uint8_t* row, int64_t first, int64_t n, float* out) {
  const BlockShape shape = ShapeOf(format);
  float values[kMaxBlockValues];
  for (int64_t at = first; at < first + n;) {
    const int64_t block = at / shape.n_values;
    const int64_t begin = at - block * shape.n_values;
    const int64_t n_here = std::min<int64_t>(shape.n_values - begin, first + n - at);
    DecodeBlock(format, row + block * shape.n_bytes, values);
    std::copy_n(values + begin, n_here, out + (at - first));
    at += n_here;
  }
}

// Index of the first item whose bits say infinity or NaN, or n.
template <typename Bits>
int64_t FindSpecial(const uint8_t* row, int64_t n, Bits exponent) {
  const auto special_at = [&](int64_t i) {
    Bits bits = 0;
    std::memcpy(&bits, row + i * int64_t{sizeof bits}, sizeof bits);
    return (bits & exponent) == exponent;
  };
  // All of them without a branch, which compilers make vectors of; the place only if there is one.
  int n_special = 0;
  for (int64_t i = 0; i < n; ++i) n_special |= special_at(i) ? 1 : 0;
  if (n_special == 0) return n;
  int64_t i = 0;
  while (!special_at(i)) ++i;
  return i;
}

int64_t FindBadBlock(MatrixFormat format, const uint8_t* row, int64_t n_blocks) {
  const int64_t n_bytes = ShapeOf(format).n_bytes;
  for (int64_t i = 0; i < n_blocks; ++i) {
    if (!HasFiniteScales(format, row + i * n_bytes)) return i;
  }
  return n_blocks;
}

}  // namespace

std::string_view NameOf(MatrixFormat format) {
  constexpr std::string_view kNames[] = {"BF16", "F32",  "F8_E4M3", "FP4",  "F16",  "Q4_0", "Q4_1",
                                         "Q5_0", "Q5_1", "Q8_0",    "Q4_K", "Q5_K", "Q6_K"};
  return kNames[static_cast<size_t>(format)];
}

int64_t RowBytesOf(const Matrix& matrix) {
  switch (matrix.format) {
    case MatrixFormat::kBf16:
    case MatrixFormat::kF16:
      return matrix.n_in * 2;
    case MatrixFormat::kF32:
      return matrix.n_in * 4;
    case MatrixFormat::kFp8:
      return matrix.n_in;
    case MatrixFormat::kFp4:
      return matrix.n_in / 2;
    default: {
      const BlockShape shape = ShapeOf(matrix.format);
      return matrix.n_in / shape.n_values * shape.n_bytes;
    }
  }
}

Matrix RowsOf(const Matrix& matrix, int64_t first, int64_t n) {
  SLUICE_CHECK(first % kTile == 0 && first >= 0 && n >= 0 && first + n <= matrix.n_out);
  Matrix part = matrix;
  part.n_out = n;
  if (matrix.layout == MatrixLayout::kPacked) {
    const PackedShape shape = PackedShapeOf(matrix.format);
    SLUICE_CHECK(first % shape.n_rows == 0);
    const int64_t record = first / shape.n_rows * RecordsOf(matrix);
    part.data = static_cast<const std::byte*>(matrix.data) + record * shape.n_bytes;
    if (matrix.format == MatrixFormat::kFp8) part.scales = ScalesOf(matrix, first);
    return part;
  }
  part.data = static_cast<const std::byte*>(matrix.data) + first * RowBytesOf(matrix);
  part.scales = ScalesOf(matrix, first);
  return part;
}

void DecodeMatrixPart(const Matrix& matrix, int64_t row, int64_t first, int64_t n, float* out) {
  SLUICE_CHECK(first % kTile == 0);
  if (matrix.layout == MatrixLayout::kPacked) return DecodePackedPart(matrix, row, first, n, out);
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
    case MatrixFormat::kF16: {
      const auto* values = reinterpret_cast<const uint16_t*>(bytes) + first;
      for (int64_t i = 0; i < n; ++i) out[i] = FromF16(values[i]);
      break;
    }
    default:
      DecodeBlocks(matrix.format, bytes, first, n, out);
  }
}

void DecodeMatrixRow(const Matrix& matrix, int64_t row, float* out) {
  DecodeMatrixPart(matrix, row, 0, matrix.n_in, out);
}

MatrixPlace FindNonFinite(const Matrix& matrix, int64_t first, int64_t n) {
  SLUICE_CHECK(matrix.layout == MatrixLayout::kRows);
  const int64_t row_bytes = RowBytesOf(matrix);
  for (int64_t row = first; row < first + n; ++row) {
    const uint8_t* bytes = static_cast<const uint8_t*>(matrix.data) + row * row_bytes;
    int64_t n_items = matrix.n_in;
    int64_t bad = n_items;
    switch (matrix.format) {
      case MatrixFormat::kBf16:
        bad = FindSpecial<uint16_t>(bytes, n_items, 0x7F80);
        break;
      case MatrixFormat::kF16:
        bad = FindSpecial<uint16_t>(bytes, n_items, 0x7C00);
        break;
      case MatrixFormat::kF32:
        bad = FindSpecial<uint32_t>(bytes, n_items, 0x7F800000);
        break;
      default:
        SLUICE_CHECK(IsBlockFormat(matrix.format));
        n_items = matrix.n_in / ShapeOf(matrix.format).n_values;
        bad = FindBadBlock(matrix.format, bytes, n_items);
    }
    if (bad < n_items) return {.row = row, .index = bad};
  }
  return {};
}

}  // namespace sluice
