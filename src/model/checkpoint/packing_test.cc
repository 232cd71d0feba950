#include "model/checkpoint/packing.h"

#include <gtest/gtest.h>

#include <vector>

#include "tensor/formats.h"

namespace sluice::model {
namespace {

// Values that are exact in bf16, each another.
std::vector<Bf16> Values(int64_t n, int first) {
  std::vector<Bf16> values;
  for (int i = 0; i < n; ++i) values.push_back(ToBf16(static_cast<float>((first + i) % 256)));
  return values;
}

std::vector<float> RowOf(const Matrix& matrix, int64_t row) {
  std::vector<float> values(static_cast<size_t>(matrix.n_in));
  DecodeMatrixRow(matrix, row, values.data());
  return values;
}

TEST(Packing, MovesEachMatrixAndSaysWhichMemoryIsFree) {
  const std::vector<Bf16> a = Values(3 * 32, 0);
  const std::vector<Bf16> b = Values(70 * 64, 7);
  Matrix first{.data = a.data(), .n_out = 3, .n_in = 32};
  Matrix second{.data = b.data(), .n_out = 70, .n_in = 64};
  const Matrix before[] = {first, second};
  Packing packing({&first, &second});
  ThreadTeam team(2);
  size_t n_free = 0;
  while (!packing.done()) n_free += packing.Step(team).size();
  EXPECT_EQ(n_free, (a.size() + b.size()) * sizeof(Bf16));
  EXPECT_EQ(packing.done_bytes(), packing.total_bytes());
  const Buffer memory = packing.Take();
  for (const auto& [now, then] : {std::pair(first, before[0]), std::pair(second, before[1])}) {
    EXPECT_EQ(now.layout, MatrixLayout::kPacked);
    EXPECT_GE(static_cast<const std::byte*>(now.data), memory.data());
    for (int64_t row = 0; row < now.n_out; ++row) EXPECT_EQ(RowOf(now, row), RowOf(then, row));
  }
}

TEST(Packing, AWeightOfTwoMatricesIsPackedOnce) {
  const std::vector<Bf16> values = Values(64 * 32, 3);
  Matrix head{.data = values.data(), .n_out = 64, .n_in = 32};
  Matrix embedding = head;
  Packing packing({&head, &embedding});
  ThreadTeam team(1);
  EXPECT_EQ(packing.Step(team).size(), values.size() * sizeof(Bf16));
  EXPECT_TRUE(packing.done());
  EXPECT_EQ(head.data, embedding.data);
  EXPECT_EQ(embedding.layout, MatrixLayout::kPacked);
  EXPECT_EQ(packing.Take().size(), 64 * 32 * 2);
}

TEST(Packing, WhatHasNoPackedFormStaysWhereItIs) {
  std::vector<uint8_t> codes(34, 0x80);  // Q8_0 with codes of -128
  const std::vector<float> floats(32, 1);
  Matrix coded{.format = MatrixFormat::kQ8_0, .data = codes.data(), .n_out = 1, .n_in = 32};
  Matrix plain{.format = MatrixFormat::kF32, .data = floats.data(), .n_out = 1, .n_in = 32};
  Packing packing({&coded, &plain});
  ThreadTeam team(1);
  while (!packing.done()) EXPECT_TRUE(packing.Step(team).empty());
  EXPECT_EQ(coded.layout, MatrixLayout::kRows);
  EXPECT_EQ(coded.data, codes.data());
  EXPECT_EQ(plain.layout, MatrixLayout::kRows);
}

}  // namespace
}  // namespace sluice::model
