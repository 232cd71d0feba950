// Cache: which block belongs to whom: free, private to one sequence, or shared through the prefix
// index. What a sequence has is its Lease; it comes with the hit, grows with the rows, and what it
// has filled is shared block by block.
//
// 1. Each block is in exactly one place (CheckInvariants).
// 2. A shared block's rows never change: a sequence that goes on inside one gets a copy.
// 3. Nothing fails: callers ask for no more than n_available, which counts what eviction can give.
//
// Knows no bytes; copies are named to the caller, who makes them before the next call. Owned by the
// engine thread.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "kv/block_key.h"
#include "kv/block_pool.h"
#include "kv/prefix_index.h"

namespace sluice::kv {

// The blocks of one sequence, for its positions from 0 on. Empty: it holds nothing.
struct Lease {
  BlockKey root;                // of its tenant, weights and layout
  std::vector<BlockId> blocks;  // the first n_sealed are full and in the index, or duplicates of it
  std::vector<uint8_t> is_own;  // by block: private
  NodeId node = PrefixIndex::kNone;  // pinned: of the last sealed block
  int32_t n_sealed = 0;              // blocks
};

class Cache {
 public:
  struct Params {
    int32_t n_blocks = 0;
    bool shares = true;  // false: every sequence computes everything
  };
  explicit Cache(const Params& params);

  // The first rows of one block, which belong into another.
  struct Copy {
    BlockId from{-1};
    BlockId to{-1};
    int32_t n_tokens = 0;  // 0: nothing
  };

  int32_t n_blocks() const { return pool_.n_blocks(); }
  int32_t n_available() const { return pool_.n_free() + index_.n_evictable(); }

  // Looks how much is there of `tokens`, without taking it.
  int32_t Look(const BlockKey& root, std::span<const TokenId> tokens, int32_t n_max);
  // What a sequence begins with.
  struct Start {
    const BlockKey& root;
    std::span<const TokenId> tokens;  // all that it knows
    int32_t n_max = 0;                // tokens to take at most
    int64_t n_spoken_for = 0;         // available blocks that others will need
    bool is_first = false;            // it begins in any case, and others give way to it
  };
  // Takes what is there: full blocks shared, the rest, an even number below a block's, as a copy,
  // if a block for it is available. `lease` is empty. Answers how many tokens; nothing, if there
  // are not enough blocks for all its tokens.
  std::optional<int32_t> Take(const Start& start, Lease& lease, Copy& copy);
  // Until it has n_blocks. That many must be available.
  void Grow(Lease& lease, int32_t n_blocks);
  // Shares the full blocks of what is stored.
  void Seal(Lease& lease, std::span<const TokenId> stored);
  // Shares the last, partly filled block, too, and gives everything back.
  void Release(Lease& lease, std::span<const TokenId> stored);
  // `to`, which is empty, becomes what `from` holds of its first n_tokens, all of them stored.
  // False if there is no block for the last ones, or if nothing is shared.
  bool Fork(const Lease& from, int32_t n_tokens, Lease& to, Copy& copy);

  // What is wrong with the books, if these are all leases; empty: nothing is.
  std::string CheckInvariants(std::span<const Lease* const> leases) const;

  int32_t n_shared() const { return index_.n_blocks(); }

 private:
  BlockId TakeBlock();
  void MovePin(Lease& lease, NodeId to);

  const bool shares_;
  BlockPool pool_;
  PrefixIndex index_;
};

}  // namespace sluice::kv
