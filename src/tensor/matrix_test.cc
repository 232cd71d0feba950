#include "tensor/matrix.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tensor/formats.h"

namespace sluice {
namespace {

std::vector<float> Decode(const Matrix& matrix, int64_t row) {
  std::vector<float> values(static_cast<size_t>(matrix.n_in));
  DecodeMatrixRow(matrix, row, values.data());
  return values;
}

// A hard-coded tile of 128 x 128 rescales every weight and still runs (spec model.md §7.3, 14).
TEST(Matrix, Fp8ScalesAreTilesOf32By32Not128) {
  constexpr int64_t kOut = 70;
  constexpr int64_t kIn = 75;
  const std::vector<uint8_t> codes(kOut * kIn, 0x38);  // 1.0
  std::vector<uint8_t> scales;
  for (int i = 0; i < 9; ++i) scales.push_back(static_cast<uint8_t>(120 + i));
  const Matrix matrix{.format = MatrixFormat::kFp8,
                      .data = codes.data(),
                      .scales = scales.data(),
                      .n_out = kOut,
                      .n_in = kIn};
  for (int64_t row = 0; row < kOut; ++row) {
    const std::vector<float> values = Decode(matrix, row);
    for (int64_t i = 0; i < kIn; ++i) {
      const auto tile = static_cast<int>(row / 32 * 3 + i / 32);
      ASSERT_EQ(values[static_cast<size_t>(i)], std::ldexp(1.0F, 120 + tile - 127)) << row << i;
    }
  }
}

// Undetectable by any statistic of the weights (spec model.md §7.3, 21).
TEST(Matrix, Fp4KeepsTheEvenInputInTheLowNibble) {
  const std::vector<uint8_t> codes(32, 0xA7);  // even 7 (6.0), odd 10 (-1.0)
  const std::vector<uint8_t> scales = {127, 128};
  const Matrix matrix{.format = MatrixFormat::kFp4,
                      .data = codes.data(),
                      .scales = scales.data(),
                      .n_out = 2,
                      .n_in = 32};
  EXPECT_EQ(Decode(matrix, 0)[0], 6.0F);
  EXPECT_EQ(Decode(matrix, 0)[1], -1.0F);
  EXPECT_EQ(Decode(matrix, 1)[30], 12.0F);
  EXPECT_EQ(Decode(matrix, 1)[31], -2.0F);
}

TEST(Matrix, PlainFormatsAreReadAsTheyAre) {
  const std::vector<Bf16> bf16 = {ToBf16(1), ToBf16(-2), ToBf16(3), ToBf16(0.5F)};
  const std::vector<float> f32 = {1.0F, -2.1F, 3.0F, 1e-30F};
  const Matrix a{.format = MatrixFormat::kBf16, .data = bf16.data(), .n_out = 2, .n_in = 2};
  const Matrix b{.format = MatrixFormat::kF32, .data = f32.data(), .n_out = 2, .n_in = 2};
  EXPECT_EQ(Decode(a, 1), (std::vector<float>{3.0F, 0.5F}));
  EXPECT_EQ(Decode(b, 1), (std::vector<float>{3.0F, 1e-30F}));
}

TEST(Matrix, PartsOfARowAreWhatTheRowHoldsThere) {
  constexpr int64_t kIn = 96;
  std::vector<uint8_t> codes(2 * kIn);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint8_t>(i % 0x7F);
  const std::vector<uint8_t> scales = {120, 127, 130, 121, 125, 133};
  for (const MatrixFormat format : {MatrixFormat::kFp8, MatrixFormat::kFp4, MatrixFormat::kBf16}) {
    const Matrix matrix{.format = format,
                        .data = codes.data(),
                        .scales = scales.data(),
                        .n_out = format == MatrixFormat::kBf16 ? 1 : 2,
                        .n_in = kIn};
    const std::vector<float> row = Decode(matrix, matrix.n_out - 1);
    for (const int64_t n : {1, 31, 32, 64}) {
      std::vector<float> part(static_cast<size_t>(n));
      DecodeMatrixPart(matrix, matrix.n_out - 1, 32, n, part.data());
      // The last code of an odd number of FP4 inputs shares its byte with one that is not asked
      // for; only whole bytes are decoded.
      const int64_t n_whole = format == MatrixFormat::kFp4 ? n / 2 * 2 : n;
      for (int64_t i = 0; i < n_whole; ++i) {
        ASSERT_EQ(part[static_cast<size_t>(i)], row[static_cast<size_t>(32 + i)]) << n << ' ' << i;
      }
    }
  }
}

TEST(Matrix, RowsOfTakesItsScalesAlong) {
  std::vector<uint8_t> codes(100 * 64, 0x38);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint8_t>(i * 7 % 0x7F);
  std::vector<uint8_t> scales(200);
  for (size_t i = 0; i < scales.size(); ++i) scales[i] = static_cast<uint8_t>(100 + i % 40);
  for (const MatrixFormat format :
       {MatrixFormat::kFp8, MatrixFormat::kFp4, MatrixFormat::kBf16, MatrixFormat::kF32}) {
    const bool is_wide = format == MatrixFormat::kBf16 || format == MatrixFormat::kF32;
    const Matrix matrix{.format = format,
                        .data = codes.data(),
                        .scales = scales.data(),
                        .n_out = 100,
                        .n_in = is_wide ? 16 : 64};
    const Matrix part = RowsOf(matrix, 64, 36);
    EXPECT_EQ(part.n_out, 36);
    EXPECT_EQ(part.n_in, matrix.n_in);
    for (const int64_t row : {0, 31, 32, 35}) {
      EXPECT_EQ(Decode(part, row), Decode(matrix, 64 + row)) << row;
    }
  }
}

}  // namespace
}  // namespace sluice
