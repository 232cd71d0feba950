#include "tensor/block_format.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

#include "tensor/formats.h"
#include "tensor/golden_file_test_impl.h"

namespace sluice {
namespace {

using harness::GoldenFile;
using harness::GoldenTensor;

constexpr MatrixFormat kBlockFormats[] = {
    MatrixFormat::kQ4_0, MatrixFormat::kQ4_1, MatrixFormat::kQ5_0, MatrixFormat::kQ5_1,
    MatrixFormat::kQ8_0, MatrixFormat::kQ4K,  MatrixFormat::kQ5K,  MatrixFormat::kQ6K};

const GoldenFile& Golden() {
  static const GoldenFile file(std::string(SLUICE_SOURCE_DIR) +
                               "/tests/golden/gguf/blocks.safetensors");
  return file;
}

uint32_t BitsOf(float x) { return std::bit_cast<uint32_t>(x); }

TEST(BlockFormat, ValuesAreThoseOfThePythonPackageToTheBit) {
  for (const MatrixFormat format : kBlockFormats) {
    const std::string name(NameOf(format));
    const GoldenTensor& blocks = Golden()[name + ".blocks"];
    const GoldenTensor& want = Golden()[name + ".values"];
    const BlockShape shape = ShapeOf(format);
    ASSERT_EQ(blocks.shape[1], shape.n_bytes) << name;
    ASSERT_EQ(want.shape[1], shape.n_values) << name;
    std::vector<float> values(static_cast<size_t>(shape.n_values));
    for (int64_t block = 0; block < blocks.shape[0]; ++block) {
      DecodeBlock(format, blocks.bytes.data() + block * shape.n_bytes, values.data());
      for (int64_t i = 0; i < shape.n_values; ++i) {
        const float wanted = want.as<float>()[block * shape.n_values + i];
        ASSERT_EQ(BitsOf(values[static_cast<size_t>(i)]), BitsOf(wanted))
            << name << " block " << block << " value " << i;
      }
    }
  }
}

TEST(BlockFormat, ARowOfBlocksIsDecodedFromAnyGroupOn) {
  for (const MatrixFormat format : kBlockFormats) {
    const std::string name(NameOf(format));
    const GoldenTensor& blocks = Golden()[name + ".blocks"];
    const GoldenTensor& want = Golden()[name + ".values"];
    // Two rows of all blocks but the last of an odd number.
    const int64_t n_in = blocks.shape[0] / 2 * ShapeOf(format).n_values;
    const Matrix matrix{.format = format, .data = blocks.bytes.data(), .n_out = 2, .n_in = n_in};
    std::vector<float> row(static_cast<size_t>(n_in));
    DecodeMatrixRow(matrix, 1, row.data());
    for (int64_t i = 0; i < n_in; ++i) {
      ASSERT_EQ(BitsOf(row[static_cast<size_t>(i)]), BitsOf(want.as<float>()[n_in + i])) << name;
    }
    for (const int64_t first : {int64_t{0}, int64_t{32}, n_in - 32}) {
      for (const int64_t n : {int64_t{1}, int64_t{31}, int64_t{32}, n_in - first}) {
        if (first + n > n_in) continue;
        std::vector<float> part(static_cast<size_t>(n));
        DecodeMatrixPart(matrix, 1, first, n, part.data());
        for (int64_t i = 0; i < n; ++i) {
          ASSERT_EQ(BitsOf(part[static_cast<size_t>(i)]),
                    BitsOf(row[static_cast<size_t>(first + i)]))
              << name << ' ' << first << ' ' << n;
        }
      }
    }
  }
}

TEST(BlockFormat, F16ValuesAreThoseOfNumpyToTheBit) {
  const GoldenTensor& bits = Golden()["F16.bits"];
  const GoldenTensor& want = Golden()["F16.values"];
  ASSERT_EQ(bits.n_values(), want.n_values());
  for (int64_t i = 0; i < bits.n_values(); ++i) {
    const float wanted = want.as<float>()[i];
    const float value = FromF16(bits.as<uint16_t>()[i]);
    if (std::isnan(wanted)) {
      ASSERT_TRUE(std::isnan(value)) << bits.as<uint16_t>()[i];
    } else {
      ASSERT_EQ(BitsOf(value), BitsOf(wanted)) << bits.as<uint16_t>()[i];
    }
  }
}

// Exponent and mantissa as the format defines them, for all patterns.
TEST(Formats, F16IsSignExponentAndMantissa) {
  for (int32_t bits = 0; bits < 0x7C00; ++bits) {
    const int32_t exponent = bits >> 10;
    const int32_t mantissa = bits & 1023;
    const float want = exponent == 0
                           ? std::ldexp(static_cast<float>(mantissa), -24)
                           : std::ldexp(static_cast<float>(1024 + mantissa), exponent - 25);
    ASSERT_EQ(FromF16(static_cast<uint16_t>(bits)), want) << bits;
    ASSERT_EQ(BitsOf(FromF16(static_cast<uint16_t>(bits | 0x8000))), BitsOf(-want)) << bits;
  }
  EXPECT_EQ(FromF16(0x7C00), INFINITY);
  EXPECT_EQ(FromF16(0xFC00), -INFINITY);
  EXPECT_TRUE(std::isnan(FromF16(0x7C01)));
}

// Infinity or NaN in one f16 number of one block: found where it is, with its row.
TEST(FindNonFinite, FindsTheBlockOfEveryBadScale) {
  for (const MatrixFormat format : kBlockFormats) {
    const BlockShape shape = ShapeOf(format);
    const std::vector<int64_t> places = format == MatrixFormat::kQ6K ? std::vector<int64_t>{208}
                                        : shape.has_min              ? std::vector<int64_t>{0, 2}
                                                                     : std::vector<int64_t>{0};
    std::vector<uint8_t> bytes(static_cast<size_t>(shape.n_bytes) * 6, 0xFF);
    for (int64_t block = 0; block < 6; ++block) {
      for (const int64_t place : places)
        bytes[static_cast<size_t>(block * shape.n_bytes + place + 1)] = 0x7B;
    }
    const Matrix matrix{
        .format = format, .data = bytes.data(), .n_out = 2, .n_in = int64_t{3} * shape.n_values};
    EXPECT_EQ(FindNonFinite(matrix, 0, 2).row, -1) << NameOf(format);
    for (const int64_t place : places) {
      uint8_t& high = bytes[static_cast<size_t>(5 * shape.n_bytes + place + 1)];
      for (const uint8_t special : {0x7C, 0xFC, 0x7E}) {
        high = special;
        EXPECT_EQ(FindNonFinite(matrix, 0, 2).row, 1) << NameOf(format);
        EXPECT_EQ(FindNonFinite(matrix, 1, 1).index, 2) << NameOf(format);
        EXPECT_EQ(FindNonFinite(matrix, 0, 1).row, -1) << NameOf(format);
      }
      high = 0x7B;
    }
  }
}

TEST(FindNonFinite, FindsTheValueOfPlainFormats) {
  std::vector<float> f32(12, 1e38F);
  std::vector<uint16_t> f16(12, 0x7BFF);
  std::vector<uint16_t> bf16(12, 0x7F7F);
  const Matrix matrices[] = {
      {.format = MatrixFormat::kF32, .data = f32.data(), .n_out = 3, .n_in = 4},
      {.format = MatrixFormat::kF16, .data = f16.data(), .n_out = 3, .n_in = 4},
      {.format = MatrixFormat::kBf16, .data = bf16.data(), .n_out = 3, .n_in = 4}};
  for (const Matrix& matrix : matrices) EXPECT_EQ(FindNonFinite(matrix, 0, 3).row, -1);
  f32[6] = -INFINITY;
  f16[6] = 0xFC00;
  bf16[6] = 0x7FC0;
  for (const Matrix& matrix : matrices) {
    EXPECT_EQ(FindNonFinite(matrix, 0, 3).row, 1);
    EXPECT_EQ(FindNonFinite(matrix, 0, 3).index, 2);
    EXPECT_EQ(FindNonFinite(matrix, 2, 1).row, -1);
  }
}

}  // namespace
}  // namespace sluice
