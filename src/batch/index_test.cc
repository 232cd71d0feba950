#include "batch/index.h"

#include <gtest/gtest.h>

#include "codec/sample_format_test_impl.h"

namespace sluice::batch {
namespace {

codec::PrepareContext Context() {
  static const codec::ModelCard kModel = {.name = "deepseek-flash"};
  return {.model = kModel, .format = codec::SampleFormat()};
}

Index Read(std::string_view input, std::vector<bool> done = {}) {
  Index index(input, Context(), std::move(done));
  while (!index.complete()) EXPECT_TRUE(index.ReadMore().ok());
  return index;
}

using Order = std::vector<uint32_t>;
Order OrderOf(const Index& index) { return {index.order().begin(), index.order().end()}; }

TEST(BatchIndex, LinesAreCountedAndBlankOnesAreNoRows) {
  const Index index = Read("a\n\n  \nb\r\nc");
  EXPECT_EQ(index.n_lines(), 5);
  EXPECT_EQ(index.n_rows(), 3);
  EXPECT_EQ(index.line(0), "a");
  EXPECT_EQ(index.line(3), "b\r");
  EXPECT_EQ(index.line(4), "c");
  EXPECT_EQ(OrderOf(index), (Order{0, 3, 4}));
  EXPECT_EQ(Read("").n_rows(), 0);
  EXPECT_EQ(Read("a\n").n_lines(), 1);
}

TEST(BatchIndex, AByteOrderMarkIsNoPartOfTheFirstLine) {
  EXPECT_EQ(Read("\xEF\xBB\xBF{}\nb").line(0), "{}");
}

TEST(BatchIndex, WhatIsDoneHasNoPlaceInTheOrder) {
  EXPECT_EQ(OrderOf(Read("a\nb\nc\nd\n", {false, true, false})), (Order{0, 2, 3}));
}

TEST(BatchIndex, OfRowsWithOneCustomIdTheFirstCounts) {
  const Index index = Read(
      "{\"custom_id\":\"a\"}\n{\"custom_id\":\"b\"}\nx\n{\"custom_id\":\"a\",\"x\":1}\n"
      "{\"custom_id\":\"a\"}\n");
  EXPECT_FALSE(index.is_duplicate(0) || index.is_duplicate(1) || index.is_duplicate(2));
  EXPECT_TRUE(index.is_duplicate(3) && index.is_duplicate(4));
}

TEST(BatchIndex, ABatchIsNamedByEveryByteOfItsLines) {
  const std::string id = Read("a\nb\n").batch_id();
  EXPECT_EQ(id.size(), 16u);
  EXPECT_EQ(Read("a\nb\n", {true}).batch_id(), id);
  for (const char* other : {"a\nc\n", "b\na\n", "a\nb\n\n", "ab\n", "a\n b\n", "a\nb\nc\n", ""}) {
    EXPECT_NE(Read(other).batch_id(), id) << other;
  }
}

TEST(BatchIndex, LongInputIsReadPieceByPiece) {
  std::string input;
  for (int i = 0; i < 100'000; ++i) input += "12345678\n";
  Index index(input, Context(), {});
  int n_pieces = 0;
  for (; !index.complete(); ++n_pieces) {
    ASSERT_TRUE(index.ReadMore().ok());
    EXPECT_LE(index.read_bytes(), std::ssize(input));
  }
  EXPECT_GT(n_pieces, 2);
  EXPECT_EQ(index.n_rows(), 100'000);
}

}  // namespace
}  // namespace sluice::batch
