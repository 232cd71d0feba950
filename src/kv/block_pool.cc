#include "kv/block_pool.h"

#include "base/check.h"

namespace sluice::kv {

BlockPool::BlockPool(int32_t n_blocks) : n_blocks_(n_blocks) {
  SLUICE_CHECK(n_blocks >= 0);
  free_.reserve(static_cast<size_t>(n_blocks));
  for (int32_t i = n_blocks - 1; i >= 0; --i) free_.emplace_back(i);
}

BlockId BlockPool::Take() {
  SLUICE_CHECK(!free_.empty());
  const BlockId block = free_.back();
  free_.pop_back();
  return block;
}

void BlockPool::GiveBack(BlockId block) {
  SLUICE_CHECK(block.value >= 0 && block.value < n_blocks_);
  SLUICE_CHECK(std::ssize(free_) < n_blocks_);
  free_.push_back(block);
}

}  // namespace sluice::kv
