// BlockStore: KV blocks by content key, asynchronously: what was computed once, here or elsewhere,
// and need not be computed again (ARCHITECTURE.md §5.3, spec kv-cache.md §4.9). A block is the
// bytes of all components of kv::Layout; header, checksum, retention and eviction are the store's.
//
// Owned by the thread that calls it. No call blocks: each returns a ticket, and its one completion
// comes through Poll. The store rings its owner's bell when there is one to take. It outlives its
// callers' memory only up to the fence of rule 3.
//
// 1. A failure of any kind is a status of the completion, and a miss to the caller. What a
//    completion calls usable are the whole, checked bytes of just the keys that were asked for.
// 2. A source of Save is read, and a target of Load is written, only while its ticket is open. The
//    caller leaves sources as they are and does not touch targets until then.
// 3. After the completion nobody, local or remote, touches either. So a completion, with success,
//    failure or cancelled, is the fence behind which blocks may be used for something else.
// 4. Cancel is answered by that completion, soon: no later than the store's own limit of one
//    operation.

#pragma once

#include <cstdint>
#include <span>

#include "base/ids.h"
#include "base/status.h"
#include "base/time.h"
#include "kv/block_key.h"
#include "kv/memory.h"

namespace sluice::kv {

// The beginning of a sequence. Spans are valid during the call.
struct FindQuery {
  BlockKey root;                   // of the tenant, weights and layout; no object crosses it
  std::span<const BlockKey> keys;  // of its blocks, from the first on, each behind the one before
};

// Blocks [begin, begin + blocks.size()) of what was found go into these blocks of `memory`.
struct KvTarget {
  const Memory* memory = nullptr;
  int32_t begin = 0;
  std::span<const BlockId> blocks;  // valid during the call
};

struct SaveItem {
  BlockKey root;    // as in FindQuery
  BlockKey parent;  // of the block before it; the root of a first one
  BlockKey key;
};

struct KvSource {
  const Memory* memory = nullptr;
  BlockId block;
};

struct Completion {
  Ticket ticket;
  Status status;         // kCancelled: after Cancel; n_blocks is 0 then
  int32_t n_blocks = 0;  // Find: there, from the first on. Load: usable, from the first of its
                         // range on, also when one behind them failed. Save: 1 if it is kept
  LeaseId lease;         // Find: until Release, or as long as the store can, what was found stays
  Duration estimate;     // Find: of loading all of it
};

class BlockStore {
 public:
  virtual ~BlockStore() = default;

  // No ticket: nothing is there.
  virtual Ticket Find(const FindQuery& query) = 0;
  // Of a lease of Find and a range of what was found; at least one block.
  virtual Ticket Load(LeaseId lease, const KvTarget& into) = 0;
  // No ticket: the store does not want it, and has not looked at it.
  virtual Ticket Save(const SaveItem& item, const KvSource& from) = 0;
  // Once at most, of an open ticket.
  virtual void Cancel(Ticket ticket) = 0;
  // After the completions of its Loads.
  virtual void Release(LeaseId lease) = 0;
  // Completions in their order; how many.
  virtual int32_t Poll(std::span<Completion> out) = 0;
};

// Nothing is there, nothing is kept: what an engine has without a store.
class NullStore final : public BlockStore {
 public:
  Ticket Find(const FindQuery&) override { return {}; }
  Ticket Load(LeaseId, const KvTarget&) override { return {}; }
  Ticket Save(const SaveItem&, const KvSource&) override { return {}; }
  void Cancel(Ticket) override {}
  void Release(LeaseId) override {}
  int32_t Poll(std::span<Completion>) override { return 0; }
};

}  // namespace sluice::kv
