// BlockPool: the blocks that nobody holds. A block is free here, private to one sequence, a node
// of the prefix index or named by an open call of the store: exactly one of the four
// (Cache::CheckInvariants). Owned by the engine thread.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"

namespace sluice::kv {

class BlockPool {
 public:
  explicit BlockPool(int32_t n_blocks);

  int32_t n_blocks() const { return n_blocks_; }
  int32_t n_free() const { return static_cast<int32_t>(free_.size()); }
  std::span<const BlockId> free() const { return free_; }

  // The one that was given back last, whose memory is warm. One must be free.
  BlockId Take();
  void GiveBack(BlockId block);

 private:
  const int32_t n_blocks_;
  std::vector<BlockId> free_;
};

}  // namespace sluice::kv
