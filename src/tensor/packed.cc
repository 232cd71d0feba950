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

int8_t FromSignAndMagnitude(uint8_t byte) {
  const int magnitude = byte & 0x7F;
  return static_cast<int8_t>((byte & 0x80) != 0 ? -magnitude : magnitude);
}

uint32_t Word32(const uint8_t* bytes) {
  uint32_t word = 0;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}
uint64_t Word64(const uint8_t* bytes) {
  uint64_t word = 0;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

// The low nibbles of the four bytes, side by side in 16 bits.
uint32_t JoinNibbles(uint32_t bytes) {
  bytes &= 0x0F0F0F0F;
  bytes = (bytes | bytes >> 4) & 0x00FF00FF;
  return (bytes | bytes >> 8) & 0xFFFF;
}
// The low nibbles of the four even bytes.
uint32_t JoinEvenNibbles(uint64_t bytes) {
  bytes &= 0x000F000F000F000F;
  bytes = (bytes | bytes >> 12) & 0x000000FF000000FF;
  return static_cast<uint32_t>((bytes | bytes >> 24) & 0xFFFF);
}

void PutLane(const PackedShape& shape, int64_t row, int64_t line, uint32_t lane, uint8_t* record) {
  std::memcpy(record + LaneAt(shape, row, line) + row % kTileRows * 4, &lane, sizeof lane);
}
// Four codes of 8 bits.
void PutBytes(
    const PackedShape& shape, int64_t row, int64_t line, uint32_t codes, uint8_t* record) {
  const auto low = static_cast<uint16_t>(codes);
  const auto high = static_cast<uint16_t>(codes >> 16);
  uint8_t* first = record + ByteAt(shape, row, line * kByteInputs);
  std::memcpy(first, &low, sizeof low);
  std::memcpy(first + 8, &high, sizeof high);
}

// Eight nibbles of E2M1 with code 8, -0, made 0.
uint32_t WithoutNegativeZeros(uint32_t codes) {
  const uint32_t magnitude = codes & 0x77777777;
  const uint32_t is_other = (magnitude | magnitude << 1 | magnitude << 2) & 0x44444444;
  return magnitude | (codes & is_other << 1);
}
// Four bytes: 0x80 made 0.
uint32_t WithoutNegativeZeroBytes(uint32_t codes) {
  const uint32_t is_other = ((codes & 0x7F7F7F7F) + 0x7F7F7F7F) & 0x80808080;
  return (codes & 0x7F7F7F7F) | (codes & is_other);
}
// Four whole numbers of [-127, 127] as sign and magnitude.
uint32_t SignsAndMagnitudes(uint32_t codes) {
  const uint32_t signs = codes & 0x80808080;
  const uint32_t ones = signs >> 7;
  const uint32_t all = ones * 0x7F;  // 0x7F where negative
  // -v = ~v + 1 in 7 bits, which do not carry: v is not -128.
  return signs | (((codes & 0x7F7F7F7F) ^ all) + ones);
}

// What a row has in a record; n inputs from `first` on are there, and the record holds zeros.
void PackFp4(const Matrix& matrix, int64_t row, int64_t first, int64_t n, uint8_t* record) {
  constexpr PackedShape kShape = PackedShapeOf(MatrixFormat::kFp4);
  const int64_t in_record = row % kShape.n_rows;
  uint8_t codes[kShape.n_inputs / 2] = {};
  const auto* from = static_cast<const uint8_t*>(matrix.data) + (row * matrix.n_in + first) / 2;
  std::memcpy(codes, from, static_cast<size_t>(n + 1) / 2);
  for (int64_t line = 0; line < kShape.n_inputs / kNibbleInputs; ++line) {
    const uint32_t eight = WithoutNegativeZeros(Word32(codes + line * 4));
    PutLane(kShape, in_record, line, JoinNibbles(eight) | JoinNibbles(eight >> 4) << 16, record);
  }
  const int64_t n_across = (matrix.n_in + 31) / 32;
  record[in_record] =
      static_cast<uint8_t>(kPackedExponent - matrix.scales[row * n_across + first / 32]);
}

void PackFp8(const Matrix& matrix, int64_t row, int64_t first, int64_t n, uint8_t* record) {
  constexpr PackedShape kShape = PackedShapeOf(MatrixFormat::kFp8);
  uint8_t codes[kShape.n_inputs] = {};
  const auto* from = static_cast<const uint8_t*>(matrix.data) + row * matrix.n_in + first;
  std::memcpy(codes, from, static_cast<size_t>(n));
  for (int64_t line = 0; line < kShape.n_inputs / kByteInputs; ++line) {
    const uint32_t four = WithoutNegativeZeroBytes(Word32(codes + line * 4));
    PutBytes(kShape, row % kShape.n_rows, line, four, record);
  }
}

void PackBf16(const Matrix& matrix, int64_t row, int64_t first, int64_t n, uint8_t* record) {
  constexpr PackedShape kShape = PackedShapeOf(MatrixFormat::kBf16);
  const auto* values = static_cast<const Bf16*>(matrix.data) + row * matrix.n_in + first;
  uint32_t lane = 0;
  std::memcpy(&lane, values, static_cast<size_t>(n) * 2);
  PutLane(kShape, row % kShape.n_rows, 0, lane, record);
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
  if constexpr (kFormat == MatrixFormat::kQ8_0) {
    for (int64_t line = 0; line < kPacked.n_inputs / kByteInputs; ++line) {
      PutBytes(kPacked, in_record, line, SignsAndMagnitudes(Word32(block + 2 + line * 4)), record);
    }
  } else {
    // Low nibbles are inputs 0 to 15, high nibbles the others.
    const uint8_t* nibbles = block + kBlock.n_bytes - 16;
    for (int64_t line = 0; line < 4; ++line) {
      const uint64_t eight = Word64(nibbles + line % 2 * 8) >> line / 2 * 4;
      const uint32_t lane = JoinEvenNibbles(eight) | JoinEvenNibbles(eight >> 8) << 16;
      PutLane(kPacked, in_record, line, lane, record);
    }
  }
}

void PackPart(const Matrix& matrix, int64_t row, int64_t first, uint8_t* record) {
  const int64_t n = std::min(PackedShapeOf(matrix.format).n_inputs, matrix.n_in - first);
  switch (matrix.format) {
    case MatrixFormat::kBf16:
      return PackBf16(matrix, row, first, n, record);
    case MatrixFormat::kFp8:
      return PackFp8(matrix, row, first, n, record);
    case MatrixFormat::kFp4:
      return PackFp4(matrix, row, first, n, record);
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

// Inputs [0, n) of row r of a record; fp8_scale: of the record.
void DecodeRecord(
    MatrixFormat format, const uint8_t* record, int64_t r, float fp8_scale, int64_t n, float* out) {
  const PackedShape shape = PackedShapeOf(format);
  const auto nibble = [&](int64_t i) { return NibbleOf(shape, record, r, i); };
  switch (format) {
    case MatrixFormat::kBf16: {
      Bf16 values[2];
      std::memcpy(values, record + LaneAt(shape, r, 0) + r % kTileRows * 4, sizeof values);
      for (int64_t i = 0; i < n; ++i) out[i] = ToFloat(values[i]);
      return;
    }
    case MatrixFormat::kFp8:
      for (int64_t i = 0; i < n; ++i) out[i] = FromE4m3(record[ByteAt(shape, r, i)]) * fp8_scale;
      return;
    case MatrixFormat::kFp4: {
      const float scale = FromE8m0(static_cast<uint8_t>(kPackedExponent - record[r]));
      for (int64_t i = 0; i < n; ++i) out[i] = FromE2m1(nibble(i)) * scale;
      return;
    }
    case MatrixFormat::kQ4_0: {
      const float scale = F16At(record, r);
      for (int64_t i = 0; i < n; ++i) out[i] = scale * static_cast<float>(nibble(i) - 8);
      return;
    }
    case MatrixFormat::kQ4_1: {
      const float scale = F16At(record, r);
      const float min = F16At(record + 64, r);
      for (int64_t i = 0; i < n; ++i) out[i] = scale * static_cast<float>(nibble(i)) + min;
      return;
    }
    default: {
      const float scale = F16At(record, r);
      for (int64_t i = 0; i < n; ++i) {
        out[i] = scale * static_cast<float>(FromSignAndMagnitude(record[ByteAt(shape, r, i)]));
      }
    }
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
    for (int64_t record = 0; record < RecordsOf(matrix); ++record) {
      for (int64_t row = stripe * shape.n_rows; row < end; ++row) {
        PackPart(matrix, row, record * shape.n_inputs, records + record * shape.n_bytes);
      }
    }
  }
}

void LoadBlock(const Matrix& matrix, int64_t row, int64_t block, uint8_t* out) {
  const BlockShape shape = ShapeOf(matrix.format);
  if (matrix.layout == MatrixLayout::kRows) {
    const auto* bytes = static_cast<const uint8_t*>(matrix.data) + row * RowBytesOf(matrix);
    std::memcpy(out, bytes + block * shape.n_bytes, static_cast<size_t>(shape.n_bytes));
    return;
  }
  const PackedShape packed = PackedShapeOf(matrix.format);
  const uint8_t* record = RecordOf(matrix, row, block * shape.n_values);
  const int64_t r = row % packed.n_rows;
  std::memcpy(out, record + r * 2, 2);
  if (shape.has_min) std::memcpy(out + kMinByte, record + 64 + r * 2, 2);
  uint8_t* codes = out + (shape.has_min ? 4 : 2);
  for (int64_t i = 0; i < shape.n_values; ++i) {
    if (matrix.format == MatrixFormat::kQ8_0) {
      codes[i] = static_cast<uint8_t>(FromSignAndMagnitude(record[ByteAt(packed, r, i)]));
    } else if (i < 16) {  // the low nibbles are the first half
      codes[i] = NibbleOf(packed, record, r, i);
    } else {
      codes[i - 16] |= static_cast<uint8_t>(NibbleOf(packed, record, r, i) << 4);
    }
  }
}

void DecodePackedPart(const Matrix& matrix, int64_t row, int64_t first, int64_t n, float* out) {
  const PackedShape shape = PackedShapeOf(matrix.format);
  SLUICE_CHECK(first % shape.n_inputs == 0);
  for (int64_t at = first; at < first + n; at += shape.n_inputs) {
    float fp8_scale = 0;
    if (matrix.format == MatrixFormat::kFp8) {
      fp8_scale =
          FromE8m0(matrix.scales[row / shape.n_rows * RecordsOf(matrix) + at / shape.n_inputs]);
    }
    DecodeRecord(matrix.format, RecordOf(matrix, row, at), row % shape.n_rows, fp8_scale,
                 std::min(shape.n_inputs, first + n - at), out + (at - first));
  }
}

}  // namespace sluice
