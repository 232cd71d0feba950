#include <gtest/gtest.h>

#include "kernels/harness/samples_test_impl.h"
#include "kernels/quantize/op.h"
#include "tensor/golden_file_test_impl.h"

namespace sluice::ops::quantize {
namespace {

using harness::GoldenTensor;
using harness::kBothArithmetics;
using harness::Samples;
using harness::Tables;

constexpr GroupFormat kFormats[] = {GroupFormat::kFp8, GroupFormat::kFp4Mx, GroupFormat::kFp4Nv};

std::string NameOf(GroupFormat format) {
  if (format == GroupFormat::kFp8) return "fp8";
  return format == GroupFormat::kFp4Mx ? "fp4_mx" : "fp4_nv";
}

TEST(Quantize, StoredRowsAndValuesAreThoseOfTheReference) {
  ThreadTeam team(2);
  for (const GroupFormat format : kFormats) {
    const std::string name = NameOf(format);
    const GoldenTensor& in = Tables()[name + ".in"];
    const int64_t n_rows = in.shape[0];
    const auto n_columns = static_cast<int32_t>(in.shape[1]);
    const int32_t row_bytes = RowBytes(format, n_columns);
    for (const Arithmetic arithmetic : kBothArithmetics) {
      Stream stream{.team = team, .arithmetic = arithmetic};
      std::vector<uint8_t> stored(static_cast<size_t>(n_rows * row_bytes));
      std::vector<Bf16> values(static_cast<size_t>(in.n_values()));
      quantize::Run({.format = format,
                     .x = in.as<Bf16>(),
                     .x_stride = n_columns,
                     .n_rows = n_rows,
                     .n_columns = n_columns,
                     .stored = stored.data(),
                     .values = values.data()},
                    stream);
      EXPECT_EQ(harness::BytesOf(values), Tables()[name + ".out"].bytes) << name;
      std::vector<uint8_t> want;
      const int32_t code_bytes = CodeBytes(format, n_columns);
      for (int64_t row = 0; row < n_rows; ++row) {
        const auto* codes = Tables()[name + ".codes"].as<uint8_t>() + row * code_bytes;
        want.insert(want.end(), codes, codes + code_bytes);
        want.push_back(Tables()[name + ".scales"].as<uint8_t>()[row]);
      }
      EXPECT_EQ(stored, want) << name;
    }
  }
}

TEST(Quantize, AStoredRowIsItsCodesThenItsScales) {
  constexpr int32_t kColumns = 96;
  Samples samples(1);
  const std::vector<Bf16> x = samples.Bf16s(kColumns, 3);
  ThreadTeam team(1);
  Stream stream{.team = team};
  for (const GroupFormat format : kFormats) {
    std::vector<uint8_t> stored(static_cast<size_t>(RowBytes(format, kColumns)));
    quantize::Run({.format = format,
                   .x = x.data(),
                   .x_stride = kColumns,
                   .n_rows = 1,
                   .n_columns = kColumns,
                   .stored = stored.data()},
                  stream);
    std::vector<uint8_t> want(stored.size());
    QuantizeRow(format, x.data(), kColumns, want.data(), want.data() + CodeBytes(format, kColumns));
    EXPECT_EQ(stored, want) << NameOf(format);
  }
}

TEST(Quantize, RowsAreIndependentAndMayBeQuantizedInPlace) {
  constexpr int64_t kRows = 7;
  constexpr int32_t kColumns = 64;
  Samples samples(2);
  const std::vector<Bf16> x = samples.Bf16s(kRows * kColumns, 5);
  for (const GroupFormat format : kFormats) {
    harness::ExpectRowsAreIndependent(
        kRows, Arithmetic::kFloat32, [&](int64_t first, int64_t n, Stream& stream) {
          std::vector<Bf16> values(x.begin() + first * kColumns,
                                   x.begin() + (first + n) * kColumns);
          std::vector<uint8_t> stored(static_cast<size_t>(n * RowBytes(format, kColumns)));
          quantize::Run({.format = format,
                         .x = values.data(),
                         .x_stride = kColumns,
                         .n_rows = n,
                         .n_columns = kColumns,
                         .stored = stored.data(),
                         .values = values.data()},
                        stream);
          // Interleaved, so that the bytes of a row lie together.
          std::vector<uint8_t> bytes;
          for (int64_t row = 0; row < n; ++row) {
            harness::AppendBytes(std::vector<Bf16>(values.begin() + row * kColumns,
                                                   values.begin() + (row + 1) * kColumns),
                                 bytes);
            const int64_t row_bytes = RowBytes(format, kColumns);
            bytes.insert(bytes.end(), stored.begin() + row * row_bytes,
                         stored.begin() + (row + 1) * row_bytes);
          }
          return bytes;
        });
  }
}

TEST(Quantize, ReadsRowsAStrideApart) {
  constexpr int64_t kStride = 100;
  Samples samples(3);
  const std::vector<Bf16> x = samples.Bf16s(3 * kStride);
  ThreadTeam team(1);
  Stream stream{.team = team};
  std::vector<Bf16> values(3 * 32);
  quantize::Run(
      {.x = x.data(), .x_stride = kStride, .n_rows = 3, .n_columns = 32, .values = values.data()},
      stream);
  for (int64_t row = 0; row < 3; ++row) {
    uint8_t codes[32];
    uint8_t scale;
    float want[32];
    QuantizeRow(GroupFormat::kFp8, x.data() + row * kStride, 32, codes, &scale);
    DequantizeRow(GroupFormat::kFp8, codes, &scale, 32, want);
    for (int i = 0; i < 32; ++i)
      EXPECT_EQ(ToFloat(values[static_cast<size_t>(row * 32 + i)]), want[i]);
  }
}

}  // namespace
}  // namespace sluice::ops::quantize
