// Transfers: the open calls of the block store: which blocks each names, and which sequence waits
// for it. Owned by the engine thread; store, cache and memory outlive it.
//
// 1. A block that an open ticket names goes back to the pool behind the ticket's completion, which
//    is the fence, and no sooner. The last of them is on destruction.
// 2. Open tickets name so few blocks that the oldest sequence gets all it needs from the others: a
//    store that never answers costs memory, and no request.
// 3. Whatever fails is counted, and the sequence goes on without.

#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "base/metrics.h"
#include "base/time.h"
#include "engine/sequence.h"
#include "kv/block_store.h"
#include "kv/cache.h"
#include "kv/memory.h"

namespace sluice::engine {

class Transfers {
 public:
  struct Params {
    kv::BlockStore& store;
    kv::Cache& cache;
    const kv::Memory& memory;
    int32_t n_blocks_max = 0;  // that open tickets may name
  };
  explicit Transfers(const Params& params) : params_(params) {}
  // Polls until the last ticket is completed.
  ~Transfers();
  Transfers(const Transfers&) = delete;

  // Asks the store for a waiting sequence, whose index has n_local tokens of it. True: it is
  // fetching now.
  bool Find(Sequence& sequence, int32_t n_local, Time now);
  // Of a waiting sequence with something found.
  enum class Loading : uint8_t {
    kNoRoom,   // not even for the sequence; nothing has changed
    kNothing,  // it holds all of it, or there is no room beside it: nothing is found any more
    kStarted,  // it is fetching now
  };
  Loading Load(const kv::Cache::Start& start, Sequence& sequence, Time now);
  // It waits for nothing any more, and holds nothing; its blocks come back behind the fence.
  void Abandon(Sequence& sequence);

  // Takes completions, and sends away those whose sequence is late. True: a sequence goes on.
  bool Poll(Time now);
  // Offers what was sealed.
  void Save();
  // Ends the open Saves, and opens no other.
  void StopSaving();

  int32_t n_open() const { return static_cast<int32_t>(open_.size()); }
  // Blocks that Loads fill; for CheckInvariants.
  std::vector<BlockId> reserved() const;

 private:
  struct Open {
    metrics::StoreCall call = metrics::StoreCall::kFind;
    Sequence* sequence = nullptr;  // null: it has gone, or a Save
    LeaseId lease;                 // of a Load
    std::vector<BlockId> blocks;   // of a Load or Save
    bool is_cancelled = false;
  };
  void Complete(const kv::Completion& completion, Open open);
  void CompleteFind(const kv::Completion& completion, Sequence* sequence);
  void CompleteLoad(const kv::Completion& completion, const Open& open);
  void Cancel(Ticket ticket);
  void Leave(Sequence& sequence);
  int32_t n_named() const { return n_loading_ + params_.cache.n_saving(); }

  struct TicketHash {
    size_t operator()(Ticket ticket) const { return ticket.value; }
  };

  const Params params_;
  std::unordered_map<Ticket, Open, TicketHash> open_;
  int32_t n_loading_ = 0;  // blocks
  bool saves_no_more_ = false;
};

}  // namespace sluice::engine
