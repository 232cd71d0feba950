#include "kv/memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace sluice::kv {
namespace {

Layout SmallLayout() {
  return {.block_components = {{.name = "a", .row_bytes = 36, .tokens_per_row = 2},
                               {.name = "b", .row_bytes = 17, .tokens_per_row = 1}},
          .slot_components = {{.name = "ring", .row_bytes = 66, .n_rows = 28}}};
}

TEST(Layout, SumsOfBytes) {
  const Layout layout = SmallLayout();
  EXPECT_EQ(layout.block_bytes(), 32 * 36 + 64 * 17);
  EXPECT_EQ(layout.slot_bytes(), 28 * 66);
  EXPECT_EQ(Layout::BlocksFor(0), 0);
  EXPECT_EQ(Layout::BlocksFor(64), 1);
  EXPECT_EQ(Layout::BlocksFor(65), 2);
}

TEST(Memory, RowsFollowTheBlockListWhateverItsOrder) {
  Memory memory(SmallLayout(), {.n_blocks = 5, .n_slots = 2});
  const std::vector<BlockId> blocks = {BlockId(4), BlockId(0), BlockId(2)};
  for (int32_t component = 0; component < 2; ++component) {
    const BlockComponent& shape = memory.layout().block_components[static_cast<size_t>(component)];
    const int64_t n_rows = int64_t{3} * shape.rows_per_block();
    for (int64_t row = 0; row < n_rows; ++row) {
      std::fill_n(memory.Row(component, blocks, row), shape.row_bytes,
                  static_cast<uint8_t>(row + 1));
    }
    const PagedRows pages = memory.Pages(component, blocks);
    for (int64_t row = 0; row < n_rows; ++row) {
      EXPECT_EQ(pages.Row(row)[0], static_cast<uint8_t>(row + 1));
      EXPECT_EQ(pages.Row(row)[shape.row_bytes - 1], static_cast<uint8_t>(row + 1));
    }
    const std::span<uint8_t> untouched = memory.Block(component, BlockId(1));
    EXPECT_TRUE(std::all_of(untouched.begin(), untouched.end(), [](uint8_t b) { return b == 0; }));
  }
}

TEST(Memory, SlotsAreApart) {
  Memory memory(SmallLayout(), {.n_blocks = 0, .n_slots = 2});
  std::span<uint8_t> first = memory.Slot(0, SlotId(0));
  std::fill(first.begin(), first.end(), uint8_t{7});
  const std::span<uint8_t> second = memory.Slot(0, SlotId(1));
  EXPECT_TRUE(std::all_of(second.begin(), second.end(), [](uint8_t b) { return b == 0; }));
  EXPECT_EQ(std::ssize(second), 28 * 66);
}

}  // namespace
}  // namespace sluice::kv
