// Memory: the bytes of all blocks and slots, one array per component. Who owns which block is not
// known here. Owned by the engine thread.
//
// Rows lie as they were quantised first: codes, then scales. They are copied, sent and restored
// without being quantised again (spec model.md §4.2).

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "kv/layout.h"
#include "tensor/buffer.h"
#include "tensor/paged.h"

namespace sluice::kv {

class Memory {
 public:
  struct Size {
    int32_t n_blocks = 0;
    int32_t n_slots = 0;
  };
  // Zeroed.
  Memory(Layout layout, Size size);

  const Layout& layout() const { return layout_; }
  Size size() const { return size_; }

  // Component: index into the layout's list of its kind.
  std::span<uint8_t> Block(int32_t component, BlockId block) const;
  std::span<uint8_t> Slot(int32_t component, SlotId slot) const;
  // Row `row` of a sequence whose blocks are given, and all of them to read.
  uint8_t* Row(int32_t component, std::span<const BlockId> blocks, int64_t row) const;
  // The rows of a block's first n_tokens into another one; all rings of a slot into another one.
  void CopyRows(BlockId from, BlockId to, int32_t n_tokens);
  void CopySlot(SlotId from, SlotId to);
  PagedRows Pages(int32_t component, std::span<const BlockId> blocks) const;

 private:
  const Layout layout_;
  const Size size_;
  std::vector<Buffer> blocks_;  // by component
  std::vector<Buffer> slots_;
};

}  // namespace sluice::kv
