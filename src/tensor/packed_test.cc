#include "tensor/packed.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tensor/block_format.h"
#include "tensor/formats.h"

namespace sluice {
namespace {

constexpr MatrixFormat kFormats[] = {MatrixFormat::kBf16, MatrixFormat::kFp8,  MatrixFormat::kFp4,
                                     MatrixFormat::kQ4_0, MatrixFormat::kQ4_1, MatrixFormat::kQ8_0};

// Random codes, none of them NaN, with scales that packing takes.
struct Weight {
  Matrix matrix;
  std::vector<uint8_t> bytes;
  std::vector<uint8_t> scales;

  Weight(MatrixFormat format, int64_t n_out, int64_t n_in) {
    matrix = {.format = format, .n_out = n_out, .n_in = n_in};
    std::mt19937 random(static_cast<uint32_t>(n_out * 1000 + n_in));
    bytes.resize(static_cast<size_t>(n_out * RowBytesOf(matrix)));
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
    if (format == MatrixFormat::kFp8) {
      for (uint8_t& byte : bytes) byte = (byte & 0x7F) == 0x7F ? 0x80 : byte;
    }
    if (IsBlockFormat(format)) FixScales();
    if (format == MatrixFormat::kBf16) {
      for (size_t i = 1; i < bytes.size(); i += 2) bytes[i] &= 0xBF;
    }
    const int64_t n_across = (n_in + 31) / 32;
    const int64_t n_down = format == MatrixFormat::kFp8 ? (n_out + 31) / 32 : n_out;
    scales.resize(static_cast<size_t>(n_across * n_down));
    for (uint8_t& scale : scales) scale = static_cast<uint8_t>(64 + random() % 127);
    matrix.data = bytes.data();
    if (IsQuantized(format)) matrix.scales = scales.data();
  }

  void FixScales() {
    const BlockShape shape = ShapeOf(matrix.format);
    for (size_t at = 0; at < bytes.size(); at += static_cast<size_t>(shape.n_bytes)) {
      bytes[at + 1] &= 0xBF;
      if (shape.has_min) bytes[at + 3] &= 0xBF;
      if (matrix.format != MatrixFormat::kQ8_0) continue;
      for (size_t i = at + 2; i < at + 34; ++i) bytes[i] = bytes[i] == 0x80 ? 0x81 : bytes[i];
    }
  }
};

struct Packed {
  Matrix matrix;
  std::vector<std::byte> bytes;

  explicit Packed(const Matrix& from) : matrix(from) {
    bytes.resize(static_cast<size_t>(PackedBytes(from)));
    // In two pieces, the second one first: stripes do not depend on each other.
    const int64_t half = StripesOf(from) / 2;
    PackStripes(from, half, StripesOf(from) - half, bytes.data());
    PackStripes(from, 0, half, bytes.data());
    matrix.layout = MatrixLayout::kPacked;
    matrix.data = bytes.data();
    if (matrix.format != MatrixFormat::kFp8) matrix.scales = nullptr;
  }
};

class PackedMatrix : public testing::TestWithParam<MatrixFormat> {};

TEST_P(PackedMatrix, HoldsTheValuesOfTheRows) {
  for (const int64_t n_out : {1, 31, 64, 130}) {
    for (const int64_t n_in : {32, 96, 160}) {
      const Weight weight(GetParam(), n_out, n_in);
      ASSERT_TRUE(CanPack(weight.matrix));
      const Packed packed(weight.matrix);
      std::vector<float> want(static_cast<size_t>(n_in));
      std::vector<float> got(static_cast<size_t>(n_in));
      for (int64_t row = 0; row < n_out; ++row) {
        DecodeMatrixRow(weight.matrix, row, want.data());
        DecodeMatrixRow(packed.matrix, row, got.data());
        ASSERT_EQ(got, want) << n_out << " x " << n_in << " row " << row;
      }
    }
  }
}

TEST_P(PackedMatrix, RowsOfItAreAMatrixOfTheirOwn) {
  const Weight weight(GetParam(), 192, 64);
  const Packed packed(weight.matrix);
  const Matrix part = RowsOf(packed.matrix, 64, 70);
  std::vector<float> want(64);
  std::vector<float> got(64);
  for (int64_t row = 0; row < 70; ++row) {
    DecodeMatrixRow(weight.matrix, 64 + row, want.data());
    DecodeMatrixRow(part, row, got.data());
    ASSERT_EQ(got, want) << row;
  }
}

TEST_P(PackedMatrix, GivesItsBlocksBack) {
  if (!IsBlockFormat(GetParam())) return;
  const BlockShape shape = ShapeOf(GetParam());
  const int64_t n_blocks = 3;
  const Weight weight(GetParam(), 70, n_blocks * shape.n_values);
  const Packed packed(weight.matrix);
  std::vector<uint8_t> want(static_cast<size_t>(shape.n_bytes));
  std::vector<uint8_t> got(want.size());
  for (int64_t row = 0; row < 70; ++row) {
    for (int64_t block = 0; block < n_blocks; ++block) {
      LoadBlock(weight.matrix, row, block, want.data());
      LoadBlock(packed.matrix, row, block, got.data());
      ASSERT_EQ(got, want) << row << ' ' << block;
    }
  }
}

TEST_P(PackedMatrix, TakesAsManyBytesAsItsRows) {
  const Matrix matrix{.format = GetParam(), .n_out = 128, .n_in = 256};
  int64_t n_rows_bytes = 128 * RowBytesOf(matrix);
  if (GetParam() == MatrixFormat::kFp4) n_rows_bytes += 128 * 256 / 32;
  EXPECT_EQ(PackedBytes(matrix), n_rows_bytes);
}

INSTANTIATE_TEST_SUITE_P(Formats,
                         PackedMatrix,
                         testing::ValuesIn(kFormats),
                         [](const auto& format) { return std::string(NameOf(format.param)); });

TEST(Packed, AnOddLastInputStandsAloneInItsPair) {
  const std::vector<Bf16> values = {ToBf16(1), ToBf16(2), ToBf16(3)};
  const Matrix matrix{.data = values.data(), .n_out = 1, .n_in = 3};
  const Packed packed(matrix);
  float got[3] = {};
  DecodeMatrixRow(packed.matrix, 0, got);
  EXPECT_EQ(got[2], 3);
  EXPECT_EQ(PackedBytes(matrix), 2 * 128);
}

TEST(Packed, CodesOfMinus128HaveNoPackedForm) {
  Weight weight(MatrixFormat::kQ8_0, 3, 64);
  EXPECT_TRUE(CanPack(weight.matrix));
  weight.bytes[34 * 5 + 2 + 31] = 0x80;
  EXPECT_FALSE(CanPack(weight.matrix));
}

TEST(Packed, FormatsWithoutAPackedFormSaySo) {
  for (const MatrixFormat format : {MatrixFormat::kF32, MatrixFormat::kQ6K}) {
    EXPECT_FALSE(CanPack({.format = format, .n_out = 1, .n_in = 256}));
    EXPECT_EQ(PackedBytes({.format = format, .n_out = 1, .n_in = 256}), 0);
  }
}

}  // namespace
}  // namespace sluice
