// Packed matrices: the numbers of a checkpoint in the order in which kernels read them (spec
// cpu-kernels.md §3.1): the same codes, moved. Pure functions.
//
// A stripe is as many rows of the matrix as a record has, over all inputs: its records stand one
// behind the other, inputs ascending; so a thread that computes the outputs of a stripe reads one
// sequential stream. Rows behind the last one and inputs behind the last one are zeros.
//
// A record holds its lines of 64 bytes in the order (line, tile): a tile is 16 rows, the 16 lanes
// of a vector of 32 bits. In lane r of a line stand, for row r of the tile,
//
//   BF16       2 inputs: the even one low                          record 32 rows x 2 inputs
//   FP8        4 codes, see below                                  32 x 32
//   FP4        8 codes: bits 4i of the low half are input 2i, of   64 x 32, in front the 64 scales,
//              the high half input 2i + 1                          kPackedExponent - E8M0
//   Q4_0       as FP4                                              32 x 32, in front 32 f16 scales
//   Q4_1       as FP4                                              in front scales, then minima
//   Q8_0       as FP8; a code is its sign and 7 bits of magnitude  32 x 32, in front 32 f16 scales
//
// Where codes have 8 bits, each 16 bytes of a line hold rows 4q to 4q + 3: first inputs 0 and 1 of
// each row, then inputs 2 and 3 of each. So one unpack of two byte vectors gives pairs by row.
// Scales of FP8 stay where they were, one per tile of 32 x 32, which is a record. Negative zeros
// become zeros.

#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/matrix.h"

namespace sluice {

inline constexpr int64_t kTileRows = 16;
inline constexpr int64_t kLineBytes = 64;
// Of FP4 scales: a scale is 2^(kPackedExponent - 127 - byte).
inline constexpr int32_t kPackedExponent = 190;
// E8M0 codes of FP8 and FP4 from this to kPackedExponent can be packed: all their products with
// codes are normal numbers of bf16 (spec cpu-kernels.md §3.0 item 6).
inline constexpr int32_t kPackedExponentLeast = 64;

struct PackedShape {
  int64_t n_rows = 0;  // of a record; 0: the format has no packed form
  int64_t n_inputs = 0;
  int64_t n_bytes = 0;
  int64_t n_header_bytes = 0;
};

constexpr PackedShape PackedShapeOf(MatrixFormat format) {
  switch (format) {
    case MatrixFormat::kBf16:
      return {.n_rows = 32, .n_inputs = 2, .n_bytes = 128};
    case MatrixFormat::kFp8:
      return {.n_rows = 32, .n_inputs = 32, .n_bytes = 1024};
    case MatrixFormat::kFp4:
      return {.n_rows = 64, .n_inputs = 32, .n_bytes = 1088, .n_header_bytes = 64};
    case MatrixFormat::kQ4_0:
      return {.n_rows = 32, .n_inputs = 32, .n_bytes = 576, .n_header_bytes = 64};
    case MatrixFormat::kQ4_1:
      return {.n_rows = 32, .n_inputs = 32, .n_bytes = 640, .n_header_bytes = 128};
    case MatrixFormat::kQ8_0:
      return {.n_rows = 32, .n_inputs = 32, .n_bytes = 1088, .n_header_bytes = 64};
    default:
      return {};
  }
}

// Stripes of a matrix, records of a stripe; the format has a packed form.
int64_t StripesOf(const Matrix& matrix);
int64_t RecordsOf(const Matrix& matrix);
// Of all of it, packed; 0 where the format has no packed form.
int64_t PackedBytes(const Matrix& matrix);

// Whether each value has a packed form: a format that has none, scales of FP8 and FP4 outside
// [kPackedExponentLeast, kPackedExponent] and codes of -128 have not. Reads the codes of Q8_0 and
// the scales of FP8 and FP4.
bool CanPack(const Matrix& matrix);

// Stripes [first, first + n) of a matrix in rows -> out, where the packed matrix's first one
// begins; at a 64-byte boundary. CanPack holds.
void PackStripes(const Matrix& matrix, int64_t first, int64_t n, std::byte* out);

// Block `block` of row `row` of a matrix in a block format, in either layout, as files have it.
void LoadBlock(const Matrix& matrix, int64_t row, int64_t block, uint8_t* out);

// DecodeMatrixPart (matrix.h) of a packed matrix.
void DecodePackedPart(const Matrix& matrix, int64_t row, int64_t first, int64_t n, float* out);

}  // namespace sluice
