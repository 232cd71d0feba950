#include <gtest/gtest.h>
#include <sys/mman.h>  // tidy: allow, reserves addresses of the true size of a table

#include <vector>

#include "kernels/engram_lookup/op.h"
#include "kernels/harness/samples_test_impl.h"

namespace sluice::ops::engram_lookup {
namespace {

// A table with any codes but NaN; scales differ from group to group.
struct Table {
  int64_t n_rows;
  int32_t head_dim;
  std::vector<uint8_t> codes;
  std::vector<uint8_t> scales;
};

Table RandomTable(int64_t n_rows, int32_t head_dim) {
  harness::Samples samples(5);
  Table table{.n_rows = n_rows, .head_dim = head_dim};
  for (int64_t i = 0; i < n_rows * head_dim; ++i) {
    const auto code = static_cast<uint8_t>(samples.Bits());
    table.codes.push_back((code & 0x7f) == 0x7f ? uint8_t{0x38} : code);
  }
  for (int64_t i = 0; i < n_rows * head_dim / 32; ++i) {
    table.scales.push_back(static_cast<uint8_t>(64 + samples.Below(127)));
  }
  return table;
}

Params On(const Table& table) {
  return {.codes = table.codes.data(),
          .scales = table.scales.data(),
          .n_table_rows = table.n_rows,
          .head_dim = table.head_dim};
}

std::vector<Bf16> LookUp(Params params, const std::vector<int64_t>& rows, Stream& stream) {
  std::vector<Bf16> out(rows.size() * static_cast<size_t>(params.head_dim));
  params.table_rows = rows.data();
  params.n_rows = static_cast<int64_t>(rows.size()) / params.n_lookups;
  params.out = out.data();
  Run(params, stream);
  return out;
}

TEST(EngramLookup, GivesTheRowsOneAfterTheOther) {
  const Table table = RandomTable(50, 64);
  Params params = On(table);
  params.n_lookups = 3;
  const std::vector<int64_t> rows = {0, 49, 7, 7, 0, 31};
  ThreadTeam team(2);
  for (const Arithmetic arithmetic : harness::kBothArithmetics) {
    Stream stream{.team = team, .arithmetic = arithmetic};
    const std::vector<Bf16> got = LookUp(params, rows, stream);
    std::vector<float> want(64);
    for (size_t i = 0; i < rows.size(); ++i) {
      DequantizeRow(GroupFormat::kFp8, table.codes.data() + rows[i] * 64,
                    table.scales.data() + rows[i] * 2, 64, want.data());
      for (size_t column = 0; column < 64; ++column) {
        EXPECT_EQ(ToFloat(got[i * 64 + column]), want[column]) << "lookup " << i;
      }
    }
  }
}

TEST(EngramLookup, EveryGroupOf32ColumnsHasItsOwnScale) {
  Table table{.n_rows = 1, .head_dim = 96, .codes = std::vector<uint8_t>(96, 0x38)};  // 1.0
  table.scales = {126, 128, 130};
  Params params = On(table);
  params.n_lookups = 1;
  ThreadTeam team(1);
  Stream stream{.team = team};
  const std::vector<Bf16> got = LookUp(params, {0}, stream);
  for (size_t column = 0; column < 96; ++column) {
    const float want[3] = {0.5F, 2, 8};
    EXPECT_EQ(ToFloat(got[column]), want[column / 32]);
  }
}

// The released tables have 384 million rows of 256 bytes. Only the pages touched here take memory.
TEST(EngramLookup, ByteOffsetsPass32Bits) {
  constexpr int64_t kRows = 384'016'682;
  constexpr int32_t kHeadDim = 256;
  const auto reserve = [](int64_t n_bytes) {
    void* at = mmap(nullptr, static_cast<size_t>(n_bytes), PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return at == MAP_FAILED ? nullptr : static_cast<uint8_t*>(at);
  };
  uint8_t* codes = reserve(kRows * kHeadDim);
  uint8_t* scales = reserve(kRows * kHeadDim / 32);
  if (codes == nullptr || scales == nullptr) GTEST_SKIP() << "no 100 GB of addresses here";

  // Around 2^31 and 2^32 bytes of codes, of scales, and at the end. 0x38 + i is a code near 1.
  const std::vector<int64_t> rows = {0,
                                     (int64_t{1} << 23) - 1,
                                     int64_t{1} << 23,
                                     int64_t{1} << 24,
                                     (int64_t{1} << 24) + 1,
                                     int64_t{1} << 28,
                                     3 * (int64_t{1} << 26) + 5,
                                     kRows - 1};
  for (size_t i = 0; i < rows.size(); ++i) {
    std::fill_n(codes + rows[i] * kHeadDim, kHeadDim, static_cast<uint8_t>(0x38 + i));
    std::fill_n(scales + rows[i] * (kHeadDim / 32), kHeadDim / 32, static_cast<uint8_t>(127 + i));
  }
  ThreadTeam team(2);
  Stream stream{.team = team};
  const std::vector<Bf16> got = LookUp({.codes = codes,
                                        .scales = scales,
                                        .n_table_rows = kRows,
                                        .head_dim = kHeadDim,
                                        .n_lookups = 4},
                                       rows, stream);
  for (size_t i = 0; i < rows.size(); ++i) {
    const float want = FromE4m3(static_cast<uint8_t>(0x38 + i)) * static_cast<float>(1 << i);
    EXPECT_EQ(ToFloat(got[i * kHeadDim]), want) << "row " << rows[i];
    EXPECT_EQ(ToFloat(got[(i + 1) * kHeadDim - 1]), want) << "row " << rows[i];
  }
  munmap(codes, static_cast<size_t>(kRows) * kHeadDim);
  munmap(scales, static_cast<size_t>(kRows) * kHeadDim / 32);
}

TEST(EngramLookup, RowsAreIndependent) {
  const Table table = RandomTable(100, 32);
  Params params = On(table);
  params.n_lookups = 2;
  std::vector<int64_t> rows;
  harness::Samples samples(6);
  for (int i = 0; i < 14; ++i) rows.push_back(samples.Below(100));
  harness::ExpectRowsAreIndependent(
      7, Arithmetic::kFloat32, [&](int64_t first, int64_t n, Stream& stream) {
        const std::vector<int64_t> part(rows.begin() + 2 * first, rows.begin() + 2 * (first + n));
        return harness::BytesOf(LookUp(params, part, stream));
      });
}

}  // namespace
}  // namespace sluice::ops::engram_lookup
