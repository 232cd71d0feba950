// MemoryStore: a BlockStore for tests, in memory, that is late and fails as it is told, in an order
// that a seed gives, and that checks what the contract asks of its caller. Owned by one thread.
//
// Delays are counted in calls of Poll. A target is overwritten when its Load opens, so that whoever
// reads what has not arrived reads nonsense, and must be untouched when it ends.

#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "base/bell.h"
#include "base/check.h"
#include "base/rng.h"
#include "base/sha256.h"
#include "kv/block_store.h"

namespace sluice::kv {

class MemoryStore final : public BlockStore {
 public:
  // Percent, each for itself.
  struct Faults {
    int32_t find_fails = 0;
    int32_t load_fails = 0;  // at a block of its range
    int32_t corrupts = 0;    // a stored byte flips before a Load of its block; the checksum tells
    int32_t save_fails = 0;
    int32_t save_is_refused = 0;  // without a ticket
    int32_t n_polls_max = 0;      // that a call takes
    int32_t stalls = 0;           // it takes a thousand
    bool shuffles = false;        // what is due at once comes in any order
  };
  explicit MemoryStore(uint64_t seed = 1) : seed_(seed) {}
  ~MemoryStore() override { SLUICE_CHECK(open_.empty() && leases_.empty()); }

  // For the calls to come.
  Faults faults;
  Duration estimate = Duration::Millis(10);
  // Nothing but cancels completes until Go.
  bool is_held = false;
  bool holds_loads = false;    // the same for Loads alone
  bool holds_cancels = false;  // not even cancels do
  void Go(Bell bell = {}) {
    is_held = holds_loads = holds_cancels = false;
    bell.Ring();
  }

  int32_t n_blocks() const { return static_cast<int32_t>(blocks_.size()); }
  int32_t n_open() const { return static_cast<int32_t>(open_.size()); }
  // Calls so far.
  int32_t n_finds = 0, n_loads = 0, n_saves = 0;
  // Forgets a block, but not those behind it.
  void Forget(const BlockKey& key) { blocks_.erase(key); }
  std::vector<BlockKey> keys() const {
    std::vector<BlockKey> keys;
    for (const auto& [key, block] : blocks_) keys.push_back(key);
    return keys;
  }

  Ticket Find(const FindQuery& query) override {
    ++n_finds;
    SLUICE_CHECK(!query.keys.empty());
    Open open{.kind = Open::kFind};
    BlockKey parent = query.root;
    for (const BlockKey& key : query.keys) {
      const auto found = blocks_.find(key);
      if (found == blocks_.end()) break;
      SLUICE_CHECK(found->second.parent == parent && found->second.root == query.root);
      open.keys.push_back(key);
      parent = key;
    }
    open.fails = Happens(faults.find_fails);
    if (open.keys.empty() && !open.fails && Happens(50)) return {};
    return Add(std::move(open));
  }

  Ticket Load(LeaseId lease, const KvTarget& into) override {
    ++n_loads;
    Lease& held = leases_.at(lease);
    ++held.n_loads;
    const auto begin = static_cast<size_t>(into.begin);
    SLUICE_CHECK(!into.blocks.empty() && begin + into.blocks.size() <= held.keys.size());
    Open open{.kind = Open::kLoad, .lease = lease, .memory = into.memory};
    open.keys.assign(held.keys.begin() + into.begin,
                     held.keys.begin() + into.begin + std::ssize(into.blocks));
    open.blocks.assign(into.blocks.begin(), into.blocks.end());
    open.fails = Happens(faults.load_fails);
    for (const BlockId block : open.blocks) Scribble(*open.memory, block);
    return Add(std::move(open));
  }

  Ticket Save(const SaveItem& item, const KvSource& from) override {
    ++n_saves;
    if (blocks_.contains(item.key) || Happens(faults.save_is_refused)) return {};
    Open open{.kind = Open::kSave, .memory = from.memory};
    open.item = item;
    open.keys = {item.key};
    open.blocks = {from.block};
    open.fails = Happens(faults.save_fails);
    open.digest = Sha256(BytesOf(*from.memory, from.block));
    return Add(std::move(open));
  }

  void Cancel(Ticket ticket) override {
    Open& open = open_.at(ticket);
    SLUICE_CHECK(!open.is_cancelled);
    open.is_cancelled = true;
    open.due = n_polls_ + 1 + Below(faults.n_polls_max + 1);
  }

  void Release(LeaseId lease) override {
    SLUICE_CHECK(leases_.at(lease).n_loads == 0);
    leases_.erase(lease);
  }

  int32_t Poll(std::span<Completion> out) override {
    ++n_polls_;
    std::vector<Ticket> due;
    for (const auto& [ticket, open] : open_) {
      const bool is_late = is_held || (holds_loads && open.kind == Open::kLoad);
      const bool is_held_back = open.is_cancelled ? holds_cancels : is_late;
      if (open.due <= n_polls_ && !is_held_back) due.push_back(ticket);
    }
    for (size_t i = due.size(); faults.shuffles && i > 1; --i) {
      std::swap(due[i - 1], due[static_cast<size_t>(Below(static_cast<int32_t>(i)))]);
    }
    due.resize(std::min(due.size(), out.size()));
    for (size_t i = 0; i < due.size(); ++i) {
      out[i] = Complete(due[i], std::move(open_.extract(due[i]).mapped()));
    }
    return static_cast<int32_t>(due.size());
  }

 private:
  struct Block {
    BlockKey root;
    BlockKey parent;
    std::vector<std::byte> bytes;
    std::array<std::byte, 32> digest;
  };
  struct Lease {
    std::vector<BlockKey> keys;
    int32_t n_loads = 0;  // open
  };
  struct Open {
    enum Kind { kFind, kLoad, kSave } kind = kFind;
    LeaseId lease;
    const Memory* memory = nullptr;
    SaveItem item;
    std::vector<BlockKey> keys;
    std::vector<BlockId> blocks;
    std::array<std::byte, 32> digest{};
    bool fails = false;
    bool is_cancelled = false;
    int64_t due = 0;
  };

  int32_t Below(int32_t n) {
    const uint64_t bits = RandomBits({.seed = seed_, .position = ++n_draws_, .stream = 0});
    return static_cast<int32_t>(bits % static_cast<uint64_t>(n));
  }
  bool Happens(int32_t percent) { return Below(100) < percent; }

  static constexpr uint8_t kNonsense = 0x5A;
  static void Scribble(const Memory& memory, BlockId block) {
    for (size_t c = 0; c < memory.layout().block_components.size(); ++c) {
      std::ranges::fill(memory.Block(static_cast<int32_t>(c), block), kNonsense);
    }
  }
  static std::vector<std::byte> BytesOf(const Memory& memory, BlockId block) {
    std::vector<std::byte> bytes;
    for (size_t c = 0; c < memory.layout().block_components.size(); ++c) {
      const auto part = std::as_bytes(memory.Block(static_cast<int32_t>(c), block));
      bytes.insert(bytes.end(), part.begin(), part.end());
    }
    return bytes;
  }
  static void Write(const std::vector<std::byte>& bytes, const Memory& memory, BlockId block) {
    size_t at = 0;
    for (size_t c = 0; c < memory.layout().block_components.size(); ++c) {
      const std::span<uint8_t> part = memory.Block(static_cast<int32_t>(c), block);
      if (!part.empty()) std::memcpy(part.data(), bytes.data() + at, part.size());
      at += part.size();
    }
  }

  Ticket Add(Open open) {
    open.due = n_polls_ + (Happens(faults.stalls) ? 1000 : Below(faults.n_polls_max + 1));
    const Ticket ticket(++n_tickets_);
    open_.emplace(ticket, std::move(open));
    return ticket;
  }

  Completion Complete(Ticket ticket, Open open) {
    Completion done{.ticket = ticket};
    if (open.kind == Open::kLoad) {
      --leases_.at(open.lease).n_loads;
      for (const BlockId block : open.blocks) {
        const std::vector<std::byte> bytes = BytesOf(*open.memory, block);
        SLUICE_CHECK(std::ranges::count(bytes, std::byte{kNonsense}) == std::ssize(bytes));
      }
    }
    if (open.kind == Open::kSave) {
      SLUICE_CHECK(Sha256(BytesOf(*open.memory, open.blocks[0])) == open.digest);
    }
    if (open.is_cancelled) {
      done.status = {ErrorCode::kCancelled, "cancelled"};
    } else if (open.fails && open.kind != Open::kLoad) {
      done.status = {ErrorCode::kOverloaded, "it fails"};
    } else {
      Do(open, done);
    }
    return done;
  }

  void Do(Open& open, Completion& done) {
    if (open.kind == Open::kFind) {
      done.n_blocks = static_cast<int32_t>(open.keys.size());
      done.estimate = estimate;
      if (open.keys.empty()) return;
      done.lease = LeaseId(++n_leases_);
      leases_.emplace(done.lease, Lease{.keys = std::move(open.keys)});
    } else if (open.kind == Open::kLoad) {
      DoLoad(open, done);
    } else {
      std::vector<std::byte> bytes = BytesOf(*open.memory, open.blocks[0]);
      const Block block{.root = open.item.root,
                        .parent = open.item.parent,
                        .bytes = std::move(bytes),
                        .digest = open.digest};
      blocks_.insert_or_assign(open.item.key, block);
      done.n_blocks = 1;
    }
  }

  void DoLoad(const Open& open, Completion& done) {
    const auto n = static_cast<int32_t>(open.blocks.size());
    const int32_t n_good = open.fails ? Below(n) : n;
    for (; done.n_blocks < n_good; ++done.n_blocks) {
      const auto i = static_cast<size_t>(done.n_blocks);
      const auto found = blocks_.find(open.keys[i]);
      if (found == blocks_.end()) break;
      Block& block = found->second;
      if (!block.bytes.empty() && Happens(faults.corrupts)) block.bytes[0] ^= std::byte{1};
      if (Sha256(block.bytes) != block.digest) {
        blocks_.erase(found);
        break;
      }
      Write(block.bytes, *open.memory, open.blocks[i]);
    }
    if (done.n_blocks < n) done.status = {ErrorCode::kCorrupt, "a block is gone or damaged"};
  }

  const uint64_t seed_;
  uint64_t n_draws_ = 0;
  std::map<BlockKey, Block> blocks_;
  std::map<LeaseId, Lease> leases_;
  std::map<Ticket, Open> open_;
  uint64_t n_tickets_ = 0;
  uint64_t n_leases_ = 0;
  int64_t n_polls_ = 0;
};

}  // namespace sluice::kv
