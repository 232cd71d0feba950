#include "kv/memory.h"

#include <cstring>
#include <utility>

#include "base/check.h"

namespace sluice::kv {
namespace {

uint8_t* At(const Buffer& buffer, int64_t offset) {
  return reinterpret_cast<uint8_t*>(buffer.data()) + offset;
}

}  // namespace

Memory::Memory(Layout layout, Size size) : layout_(std::move(layout)), size_(size) {
  SLUICE_CHECK(size.n_blocks >= 0 && size.n_slots >= 0);
  for (const BlockComponent& component : layout_.block_components) {
    SLUICE_CHECK(kBlockTokens % component.tokens_per_row == 0);
    blocks_.emplace_back(component.block_bytes() * size.n_blocks);
  }
  for (const SlotComponent& component : layout_.slot_components) {
    slots_.emplace_back(component.slot_bytes() * size.n_slots);
  }
}

std::span<uint8_t> Memory::Block(int32_t component, BlockId block) const {
  SLUICE_CHECK(block.value >= 0 && block.value < size_.n_blocks);
  const auto c = static_cast<size_t>(component);
  const int64_t n_bytes = layout_.block_components[c].block_bytes();
  return {At(blocks_[c], block.value * n_bytes), static_cast<size_t>(n_bytes)};
}

std::span<uint8_t> Memory::Slot(int32_t component, SlotId slot) const {
  SLUICE_CHECK(slot.value >= 0 && slot.value < size_.n_slots);
  const auto c = static_cast<size_t>(component);
  const int64_t n_bytes = layout_.slot_components[c].slot_bytes();
  return {At(slots_[c], slot.value * n_bytes), static_cast<size_t>(n_bytes)};
}

uint8_t* Memory::Row(int32_t component, std::span<const BlockId> blocks, int64_t row) const {
  const BlockComponent& shape = layout_.block_components[static_cast<size_t>(component)];
  const int32_t per_block = shape.rows_per_block();
  SLUICE_CHECK(row >= 0 && row / per_block < std::ssize(blocks));
  const BlockId block = blocks[static_cast<size_t>(row / per_block)];
  return Block(component, block).data() + row % per_block * shape.row_bytes;
}

void Memory::CopyRows(BlockId from, BlockId to, int32_t n_tokens) {
  SLUICE_CHECK(n_tokens >= 0 && n_tokens <= kBlockTokens);
  for (size_t c = 0; c < layout_.block_components.size(); ++c) {
    const BlockComponent& shape = layout_.block_components[c];
    const auto n_bytes =
        static_cast<size_t>(n_tokens / shape.tokens_per_row) * static_cast<size_t>(shape.row_bytes);
    const auto component = static_cast<int32_t>(c);
    std::memcpy(Block(component, to).data(), Block(component, from).data(), n_bytes);
  }
}

void Memory::CopySlot(SlotId from, SlotId to) {
  for (size_t c = 0; c < layout_.slot_components.size(); ++c) {
    const std::span<const uint8_t> bytes = Slot(static_cast<int32_t>(c), from);
    std::memcpy(Slot(static_cast<int32_t>(c), to).data(), bytes.data(), bytes.size());
  }
}

PagedRows Memory::Pages(int32_t component, std::span<const BlockId> blocks) const {
  const BlockComponent& shape = layout_.block_components[static_cast<size_t>(component)];
  return {.base = At(blocks_[static_cast<size_t>(component)], 0),
          .blocks = blocks.data(),
          .block_bytes = shape.block_bytes(),
          .rows_per_block = shape.rows_per_block(),
          .row_bytes = shape.row_bytes};
}

}  // namespace sluice::kv
