// Cache: which block belongs to whom: free, private to one sequence, or shared through the prefix
// index. What a sequence has is its Lease; it comes with the hit, grows with the rows, and what it
// has filled is shared block by block.
//
// 1. Each block is in exactly one place (CheckInvariants); one that a transfer of the store names
//    does not return to the pool before the transfer has ended.
// 2. A shared block's rows never change: a sequence that goes on inside one gets a copy.
// 3. Nothing fails: callers ask for no more than n_available, which counts what eviction can give.
//
// Knows no bytes; copies are named to the caller, who makes them before the next call. Owned by the
// engine thread.

#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "kv/block_key.h"
#include "kv/block_pool.h"
#include "kv/evicted_keys.h"
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
  int32_t n_free() const { return pool_.n_free(); }
  // Not those that are being saved: they stay where they are for a while, whoever evicts them.
  int32_t n_available() const {
    return std::max(0, pool_.n_free() + index_.n_evictable() - n_saving_shared_);
  }

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
  struct Hit {
    int32_t n_tokens = 0;
    bool parts = false;       // behind a whole block that is there, others went on differently
    bool lacks_room = false;  // there was more, and no block for a copy of it
  };
  // Takes what is there: full blocks shared, the rest, an even number below a block's, as a copy,
  // if a block for it is available. `lease` is empty. Answers how much; nothing, if there are not
  // enough blocks for all its tokens.
  std::optional<Hit> Take(const Start& start, Lease& lease, Copy& copy);
  // Until it has n_blocks. That many must be available.
  void Grow(Lease& lease, int32_t n_blocks);
  // Shares the full blocks of what is stored.
  void Seal(Lease& lease, std::span<const TokenId> stored);
  // Shares the last, partly filled block, too, and gives everything back.
  void Release(Lease& lease, std::span<const TokenId> stored);
  // `to`, which is empty, becomes what `from` holds of its first n_tokens, all of them stored.
  // False if there is no block for the last ones, or if nothing is shared.
  bool Fork(const Lease& from, int32_t n_tokens, Lease& to, Copy& copy);

  // Blocks to be filled by a transfer. Whether all of start's tokens, as in Take, find room; if so,
  // `lease`, which is empty, holds the full blocks that are there, and `blocks` become those that
  // follow them, fewer if no more are available.
  struct Room {
    int32_t n_end = 0;  // blocks of the sequence, those that are there included
    int32_t n_max = 0;  // blocks to reserve at most
  };
  bool Reserve(const Start& start, const Room& room, Lease& lease, std::vector<BlockId>& blocks);
  // The first n_filled of them hold the rows of `tokens` behind the lease: they are shared. The
  // others, and the lease, are given back.
  void Settle(std::span<const TokenId> tokens,
              int32_t n_filled,
              Lease& lease,
              std::span<const BlockId> blocks);
  void GiveBack(std::span<const BlockId> blocks);

  // What a store keeps by name: the full blocks that Seal or Release shared, each once; at most as
  // many as there are blocks wait to be taken.
  struct Sealed {
    BlockKey root;
    BlockKey parent;
    BlockKey key;
  };
  std::optional<Sealed> NextSealed();
  // The shared block of that name, which stays as it is until EndSave; nothing: it is gone.
  std::optional<BlockId> BeginSave(const BlockKey& key);
  void EndSave(BlockId block);
  int32_t n_saving() const { return n_saving_; }

  // Whether a full block of that name was there, and made room for others not long ago.
  bool WasEvicted(const BlockKey& key) const { return evicted_.Has(key); }

  // What is wrong with the books, if these are all leases, and the blocks to be filled by
  // transfers; empty: nothing is.
  std::string CheckInvariants(std::span<const Lease* const> leases,
                              std::span<const BlockId> reserved = {}) const;

  int32_t n_shared() const { return index_.n_blocks(); }
  int32_t n_evictable() const { return index_.n_evictable(); }  // shared, and used by nobody

 private:
  BlockId TakeBlock();
  // The full blocks that are there, into an empty lease, if all of start's tokens find room.
  bool TakeFull(const Start& start, Lease& lease, PrefixIndex::Match& match);
  void MovePin(Lease& lease, NodeId to);

  bool IsSaving(BlockId block) const { return saving_[static_cast<size_t>(block.value)] != 0; }

  // By block: a transfer reads it; it does, and the index has lost it.
  enum Saving : uint8_t { kNotSaving, kSavingShared, kSavingAlone };

  const bool shares_;
  BlockPool pool_;
  PrefixIndex index_;
  EvictedKeys evicted_;
  std::deque<Sealed> sealed_;
  std::vector<Saving> saving_;
  int32_t n_saving_ = 0;
  int32_t n_saving_shared_ = 0;
};

}  // namespace sluice::kv
