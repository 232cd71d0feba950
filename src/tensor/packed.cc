#include "tensor/packed.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "tensor/block_decode.h"
#include "tensor/formats.h"

namespace sluice {
namespace {

constexpr int64_t kNibbleInputs = 8;  // of a line
constexpr int64_t kByteInputs = 4;

// Where the lane of a row stands behind the header of a record: line `line`, the row's tile.
int64_t LaneAt(const PackedShape& shape, int64_t row, int64_t line) {
  const int64_t n_tiles = shape.n_rows / kTileRows;
  return shape.n_header_bytes + (line * n_tiles + row / kTileRows) * kLineBytes;
}

// Code of 4 bits of (row, input) in a record: its byte, and how far up it stands there.
struct NibblePlace {
  int64_t byte = 0;
  int shift = 0;
};

NibblePlace NibbleAt(const PackedShape& shape, int64_t row, int64_t input) {
  const int64_t in_line = input % kNibbleInputs;
  const int64_t bit = in_line % 2 * 16 + in_line / 2 * 4;
  const int64_t lane = LaneAt(shape, row, input / kNibbleInputs) + row % kTileRows * 4;
  return {.byte = lane + bit / 8, .shift = static_cast<int>(bit % 8)};
}

int64_t ByteAt(const PackedShape& shape, int64_t row, int64_t input) {
  const int64_t in_line = input % kByteInputs;
  const int64_t in_tile = row % kTileRows;
  return LaneAt(shape, row, input / kByteInputs) + in_tile / 4 * 16 + in_line / 2 * 8 +
         in_tile % 4 * 2 + in_line % 2;
}

uint8_t SignAndMagnitude(int8_t code) {
  return static_cast<uint8_t>(code < 0 ? 0x80 | -code : code);
}
int8_t FromSignAndMagnitude(uint8_t byte) {
  const int magnitude = byte & 0x7F;
  return static_cast<int8_t>((byte & 0x80) != 0 ? -magnitude : magnitude);
}

bool IsBlockOfBytes(MatrixFormat format) { return format == MatrixFormat::kQ8_0; }

void PutNibble(
    const PackedShape& shape, int64_t row, int64_t input, uint8_t code, uint8_t* record) {
  const NibblePlace place = NibbleAt(shape, row, input);
  record[place.byte] = static_cast<uint8_t>(record[place.byte] | code << place.shift);
}

// Part of one row that falls into a record: `inputs` of them from `first`.
void PackFp4(const Matrix& matrix, int64_t row, int64_t first, uint8_t* record) {
  const PackedShape shape = PackedShapeOf(MatrixFormat::kFp4);
  const auto* codes = static_cast<const uint8_t*>(matrix.data) + (row * matrix.n_in + first) / 2;
  const int64_t in_record = row % shape.n_rows;
  const int64_t n = std::min(shape.n_inputs, matrix.n_in - first);
  for (int64_t i = 0; i < n; ++i) {
    const auto code = static_cast<uint8_t>(codes[i / 2] >> i % 2 * 4 & 15);
    PutNibble(shape, in_record, i, code == 8 ? 0 : code, record);
  }
  const int64_t n_across = (matrix.n_in + 31) / 32;
  record[in_record] =
      static_cast<uint8_t>(kPackedExponent - matrix.scales[row * n_across + first / 32]);
}

void PackFp8(const Matrix& matrix, int64_t row, int64_t first, uint8_t* record) {
  const PackedShape shape = PackedShapeOf(MatrixFormat::kFp8);
  const auto* codes = static_cast<const uint8_t*>(matrix.data) + row * matrix.n_in + first;
  const int64_t n = std::min(shape.n_inputs, matrix.n_in - first);
  for (int64_t i = 0; i < n; ++i) {
    record[ByteAt(shape, row % shape.n_rows, i)] = codes[i] == 0x80 ? 0 : codes[i];
  }
}

// Values of 16 bits.
void PackPairs(const Matrix& matrix, int64_t row, int64_t first, uint8_t* record) {
  const PackedShape shape = PackedShapeOf(matrix.format);
  const auto* values = static_cast<const uint16_t*>(matrix.data) + row * matrix.n_in + first;
  const int64_t n = std::min(shape.n_inputs, matrix.n_in - first);
  uint8_t* lane = record + LaneAt(shape, row % shape.n_rows, 0) + row % kTileRows * 4;
  std::memcpy(lane, values, static_cast<size_t>(n) * 2);
}

template <MatrixFormat kFormat>
void PackBlock(const Matrix& matrix, int64_t row, int64_t first, uint8_t* record) {
  constexpr PackedShape kPacked = PackedShapeOf(kFormat);
  constexpr BlockShape kBlock = ShapeOf(kFormat);
  const auto* block = static_cast<const uint8_t*>(matrix.data) + row * RowBytesOf(matrix) +
                      first / kBlock.n_values * kBlock.n_bytes;
  const int64_t in_record = row % kPacked.n_rows;
  std::memcpy(record + in_record * 2, block, 2);
  if (kBlock.has_min) std::memcpy(record + 64 + in_record * 2, block + kMinByte, 2);
  int8_t codes[kBlock.n_values];
  DecodeCodes<kFormat>(block, codes);
  for (int64_t i = 0; i < kBlock.n_values; ++i) {
    if (IsBlockOfBytes(kFormat)) {
      record[ByteAt(kPacked, in_record, i)] = SignAndMagnitude(codes[i]);
    } else {
      // Of Q4_0 a code is the nibble less 8: the nibble is kept.
      const int nibble = codes[i] + (kBlock.has_min ? 0 : 8);
      PutNibble(kPacked, in_record, i, static_cast<uint8_t>(nibble), record);
    }
  }
}

void PackPart(const Matrix& matrix, int64_t row, int64_t first, uint8_t* record) {
  switch (matrix.format) {
    case MatrixFormat::kBf16:
    case MatrixFormat::kF16:
      return PackPairs(matrix, row, first, record);
    case MatrixFormat::kFp8:
      return PackFp8(matrix, row, first, record);
    case MatrixFormat::kFp4:
      return PackFp4(matrix, row, first, record);
    case MatrixFormat::kQ4_0:
      return PackBlock<MatrixFormat::kQ4_0>(matrix, row, first, record);
    case MatrixFormat::kQ4_1:
      return PackBlock<MatrixFormat::kQ4_1>(matrix, row, first, record);
    case MatrixFormat::kQ8_0:
      return PackBlock<MatrixFormat::kQ8_0>(matrix, row, first, record);
    default:
      SLUICE_CHECK(false && "the format has no packed form");
  }
}

// Record of (row, input) and the code of 4 or 8 bits there.
const uint8_t* RecordOf(const Matrix& matrix, int64_t row, int64_t input) {
  const PackedShape shape = PackedShapeOf(matrix.format);
  const int64_t index = row / shape.n_rows * RecordsOf(matrix) + input / shape.n_inputs;
  return static_cast<const uint8_t*>(matrix.data) + index * shape.n_bytes;
}

uint8_t NibbleOf(const PackedShape& shape, const uint8_t* record, int64_t row, int64_t input) {
  const NibblePlace place = NibbleAt(shape, row, input);
  return static_cast<uint8_t>(record[place.byte] >> place.shift & 15);
}

float F16At(const uint8_t* record, int64_t row) { return FromF16(F16BitsAt(record + row * 2)); }

float ValueAt(const Matrix& matrix, int64_t row, int64_t input) {
  const PackedShape shape = PackedShapeOf(matrix.format);
  const uint8_t* record = RecordOf(matrix, row, input);
  const int64_t r = row % shape.n_rows;
  const int64_t i = input % shape.n_inputs;
  switch (matrix.format) {
    case MatrixFormat::kBf16:
    case MatrixFormat::kF16: {
      const uint16_t bits = F16BitsAt(record + LaneAt(shape, r, 0) + r % kTileRows * 4 + i * 2);
      return matrix.format == MatrixFormat::kF16 ? FromF16(bits) : ToFloat(Bf16{bits});
    }
    case MatrixFormat::kFp8: {
      const int64_t scale_row = row / shape.n_rows * RecordsOf(matrix);
      return FromE4m3(record[ByteAt(shape, r, i)]) *
             FromE8m0(matrix.scales[scale_row + input / shape.n_inputs]);
    }
    case MatrixFormat::kFp4:
      return FromE2m1(NibbleOf(shape, record, r, i)) *
             FromE8m0(static_cast<uint8_t>(kPackedExponent - record[r]));
    case MatrixFormat::kQ4_0:
      return F16At(record, r) * static_cast<float>(NibbleOf(shape, record, r, i) - 8);
    case MatrixFormat::kQ4_1:
      return F16At(record, r) * static_cast<float>(NibbleOf(shape, record, r, i)) +
             F16At(record + 64, r);
    default:
      return F16At(record, r) *
             static_cast<float>(FromSignAndMagnitude(record[ByteAt(shape, r, i)]));
  }
}

bool ScalesArePackable(const Matrix& matrix) {
  const int64_t n_across = (matrix.n_in + 31) / 32;
  const int64_t n_down =
      matrix.format == MatrixFormat::kFp8 ? (matrix.n_out + 31) / 32 : matrix.n_out;
  const auto [least, largest] =
      std::minmax_element(matrix.scales, matrix.scales + n_down * n_across);
  return *least >= kPackedExponentLeast && *largest <= kPackedExponent;
}

}  // namespace

int64_t StripesOf(const Matrix& matrix) {
  const int64_t n_rows = PackedShapeOf(matrix.format).n_rows;
  return (matrix.n_out + n_rows - 1) / n_rows;
}

int64_t RecordsOf(const Matrix& matrix) {
  const int64_t n_inputs = PackedShapeOf(matrix.format).n_inputs;
  return (matrix.n_in + n_inputs - 1) / n_inputs;
}

int64_t PackedBytes(const Matrix& matrix) {
  const PackedShape shape = PackedShapeOf(matrix.format);
  if (shape.n_rows == 0) return 0;
  return StripesOf(matrix) * RecordsOf(matrix) * shape.n_bytes;
}

bool CanPack(const Matrix& matrix) {
  if (PackedShapeOf(matrix.format).n_rows == 0) return false;
  if (matrix.scales != nullptr) return ScalesArePackable(matrix);
  if (matrix.format != MatrixFormat::kQ8_0) return true;
  const auto* bytes = static_cast<const uint8_t*>(matrix.data);
  const int64_t block_bytes = ShapeOf(MatrixFormat::kQ8_0).n_bytes;
  const int64_t n_blocks = matrix.n_out * RowBytesOf(matrix) / block_bytes;
  for (int64_t block = 0; block < n_blocks; ++block) {
    const uint8_t* codes = bytes + block * block_bytes + 2;
    bool found = false;
    for (int i = 0; i < 32; ++i) found |= codes[i] == 0x80;
    if (found) return false;
  }
  return true;
}

void PackStripes(const Matrix& matrix, int64_t first, int64_t n, std::byte* out) {
  SLUICE_CHECK(matrix.layout == MatrixLayout::kRows);
  const PackedShape shape = PackedShapeOf(matrix.format);
  const int64_t stripe_bytes = RecordsOf(matrix) * shape.n_bytes;
  for (int64_t stripe = first; stripe < first + n; ++stripe) {
    auto* records = reinterpret_cast<uint8_t*>(out + stripe * stripe_bytes);
    std::memset(records, 0, static_cast<size_t>(stripe_bytes));
    const int64_t end = std::min((stripe + 1) * shape.n_rows, matrix.n_out);
    for (int64_t row = stripe * shape.n_rows; row < end; ++row) {
      for (int64_t record = 0; record < RecordsOf(matrix); ++record) {
        PackPart(matrix, row, record * shape.n_inputs, records + record * shape.n_bytes);
      }
    }
  }
}

void DecodePackedPart(const Matrix& matrix, int64_t row, int64_t first, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = ValueAt(matrix, row, first + i);
}

}  // namespace sluice
