#include "kv/cache.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace sluice::kv {

Cache::Cache(const Params& params)
    : shares_(params.shares),
      pool_(params.n_blocks),
      evicted_(params.n_blocks),
      saving_(static_cast<size_t>(params.n_blocks), kNotSaving) {}

int32_t Cache::Look(const BlockKey& root, std::span<const TokenId> tokens, int32_t n_max) {
  return shares_ && n_max > 0 ? index_.Find(root, tokens, n_max).n_tokens() : 0;
}

bool Cache::TakeFull(const Start& start, Lease& lease, PrefixIndex::Match& match) {
  SLUICE_CHECK(lease.blocks.empty() && lease.node == PrefixIndex::kNone);
  match = {};
  if (shares_ && start.n_max > 0) match = index_.Find(start.root, start.tokens, start.n_max);
  lease.root = start.root;
  lease.blocks = index_.BlocksOf(match.node);
  lease.is_own.assign(lease.blocks.size(), 0);
  lease.n_sealed = static_cast<int32_t>(lease.blocks.size());
  MovePin(lease, match.node);
  const int64_t n_needed = Layout::BlocksFor(std::ssize(start.tokens)) - std::ssize(lease.blocks);
  if (start.is_first || n_needed + start.n_spoken_for <= n_available()) return true;
  Release(lease, {});
  return false;
}

std::optional<Cache::Hit> Cache::Take(const Start& start, Lease& lease, Copy& copy) {
  copy = {};
  PrefixIndex::Match match;
  if (!TakeFull(start, lease, match)) return std::nullopt;
  Hit hit{.n_tokens = match.n_full, .parts = match.parts};
  if (match.partial == PrefixIndex::kNone) return hit;
  // Its rows are copied before anything else happens, so it may be evicted afterwards, not before.
  index_.Pin(match.partial);
  hit.lacks_room = n_available() == 0;
  if (!hit.lacks_room) {
    hit.n_tokens = match.n_tokens();
    copy = {.from = index_.block(match.partial), .to = TakeBlock(), .n_tokens = match.n_partial};
    lease.blocks.push_back(copy.to);
    lease.is_own.push_back(1);
  }
  index_.Unpin(match.partial);
  return hit;
}

bool Cache::Reserve(const Start& start,
                    const Room& room,
                    Lease& lease,
                    std::vector<BlockId>& blocks) {
  SLUICE_CHECK(shares_);
  PrefixIndex::Match match;
  if (!TakeFull(start, lease, match)) return false;
  blocks.clear();
  const auto n_missing = static_cast<int32_t>(room.n_end - std::ssize(lease.blocks));
  const int32_t n_blocks = std::min(n_missing, room.n_max);
  while (std::ssize(blocks) < n_blocks && n_available() > 0) blocks.push_back(TakeBlock());
  return true;
}

void Cache::Settle(std::span<const TokenId> tokens,
                   int32_t n_filled,
                   Lease& lease,
                   std::span<const BlockId> blocks) {
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (static_cast<int32_t>(i) >= n_filled) {
      pool_.GiveBack(blocks[i]);
      continue;
    }
    const auto of_block = tokens.subspan(lease.blocks.size() * kBlockTokens, kBlockTokens);
    NodeId node = index_.FindChild(lease.root, lease.node, of_block);
    if (node != PrefixIndex::kNone) {
      pool_.GiveBack(blocks[i]);  // somebody else computed it in the meantime
    } else {
      node = index_.Insert(lease.root, lease.node, of_block, blocks[i]);
      evicted_.Remove(index_.key(node));
    }
    MovePin(lease, node);
    lease.blocks.push_back(index_.block(node));
    lease.is_own.push_back(0);
    ++lease.n_sealed;
  }
  Release(lease, {});
}

void Cache::GiveBack(std::span<const BlockId> blocks) {
  for (const BlockId block : blocks) pool_.GiveBack(block);
}

std::optional<Cache::Sealed> Cache::NextSealed() {
  if (sealed_.empty()) return std::nullopt;
  const Sealed next = sealed_.front();
  sealed_.pop_front();
  return next;
}

std::optional<BlockId> Cache::BeginSave(const BlockKey& key) {
  const NodeId node = index_.Lookup(key);
  if (node == PrefixIndex::kNone) return std::nullopt;
  const BlockId block = index_.block(node);
  if (IsSaving(block)) return std::nullopt;  // lost, computed again and named twice
  saving_[static_cast<size_t>(block.value)] = kSavingShared;
  ++n_saving_;
  ++n_saving_shared_;
  return block;
}

void Cache::EndSave(BlockId block) {
  SLUICE_CHECK(IsSaving(block));
  Saving& state = saving_[static_cast<size_t>(block.value)];
  --n_saving_;
  if (state == kSavingShared) --n_saving_shared_;
  if (state == kSavingAlone) pool_.GiveBack(block);
  state = kNotSaving;
}

void Cache::Grow(Lease& lease, int32_t n_blocks) {
  while (std::ssize(lease.blocks) < n_blocks) {
    lease.blocks.push_back(TakeBlock());
    lease.is_own.push_back(1);
  }
}

void Cache::Seal(Lease& lease, std::span<const TokenId> stored) {
  if (!shares_) return;
  for (auto at = static_cast<size_t>(lease.n_sealed); (at + 1) * kBlockTokens <= stored.size();
       ++at) {
    const auto tokens = stored.subspan(at * kBlockTokens, kBlockTokens);
    NodeId node = index_.FindChild(lease.root, lease.node, tokens);
    // Computed by somebody else in the meantime: the sequence keeps its own, whose bits it began
    // with.
    if (node == PrefixIndex::kNone) {
      const BlockKey parent =
          lease.node == PrefixIndex::kNone ? lease.root : index_.key(lease.node);
      node = index_.Insert(lease.root, lease.node, tokens, lease.blocks[at]);
      lease.is_own[at] = 0;
      evicted_.Remove(index_.key(node));
      sealed_.push_back({.root = lease.root, .parent = parent, .key = index_.key(node)});
      // The oldest: what comes behind it in its sequence is of no use without it, but newer
      // sequences are the likelier ones to come back.
      if (std::ssize(sealed_) > n_blocks()) sealed_.pop_front();
    }
    MovePin(lease, node);
    ++lease.n_sealed;
  }
}

void Cache::Release(Lease& lease, std::span<const TokenId> stored) {
  Seal(lease, stored);
  const auto n_full = stored.size() / kBlockTokens;
  const auto rest = stored.subspan(n_full * kBlockTokens);
  if (shares_ && !rest.empty() && lease.is_own[n_full] != 0 &&
      !index_.HasChild(lease.root, lease.node, rest)) {
    index_.Insert(lease.root, lease.node, rest, lease.blocks[n_full]);
    lease.is_own[n_full] = 0;
  }
  MovePin(lease, PrefixIndex::kNone);
  for (size_t i = lease.blocks.size(); i-- > 0;) {
    if (lease.is_own[i] != 0) pool_.GiveBack(lease.blocks[i]);
  }
  lease = {};
}

bool Cache::Fork(const Lease& from, int32_t n_tokens, Lease& to, Copy& copy) {
  SLUICE_CHECK(to.blocks.empty() && to.node == PrefixIndex::kNone);
  copy = {};
  const int32_t n_rest = n_tokens % kBlockTokens;
  const auto n_full = static_cast<size_t>(n_tokens / kBlockTokens);
  if (!shares_ || (n_rest > 0 && n_available() == 0)) return false;
  SLUICE_CHECK(from.n_sealed == static_cast<int32_t>(n_full));
  to.root = from.root;
  to.blocks = index_.BlocksOf(from.node);
  to.is_own.assign(n_full, 0);
  to.n_sealed = from.n_sealed;
  MovePin(to, from.node);
  if (n_rest == 0) return true;
  copy = {.from = from.blocks[n_full], .to = TakeBlock(), .n_tokens = n_rest};
  to.blocks.push_back(copy.to);
  to.is_own.push_back(1);
  return true;
}

BlockId Cache::TakeBlock() {
  while (pool_.n_free() == 0) {
    const PrefixIndex::Evicted evicted = index_.Evict();
    if (evicted.key) evicted_.Add(*evicted.key);
    if (!IsSaving(evicted.block)) {
      pool_.GiveBack(evicted.block);
    } else {
      saving_[static_cast<size_t>(evicted.block.value)] = kSavingAlone;
      --n_saving_shared_;
    }
  }
  return pool_.Take();
}

void Cache::MovePin(Lease& lease, NodeId to) {
  if (to != PrefixIndex::kNone) index_.Pin(to);
  if (lease.node != PrefixIndex::kNone) index_.Unpin(lease.node);
  lease.node = to;
}

std::string Cache::CheckInvariants(std::span<const Lease* const> leases,
                                   std::span<const BlockId> reserved) const {
  std::vector<const char*> owner_of(static_cast<size_t>(pool_.n_blocks()), nullptr);
  std::string wrong;
  const auto claim = [&](BlockId block, const char* owner) {
    const char*& at = owner_of[static_cast<size_t>(block.value)];
    if (at != nullptr) wrong += fmt::format("block {} is {} and {}; ", block.value, at, owner);
    at = owner;
  };
  for (const BlockId block : pool_.free()) claim(block, "free");
  for (const BlockId block : index_.dropped()) claim(block, "dropped");
  for (const BlockId block : reserved) claim(block, "reserved");
  int32_t n_saving_shared = 0;
  for (int32_t i = 0; i < n_blocks(); ++i) {
    const Saving state = saving_[static_cast<size_t>(i)];
    if (state == kSavingAlone) claim(BlockId(i), "only being saved");
    n_saving_shared += state == kSavingShared ? 1 : 0;
  }
  if (n_saving_shared != n_saving_shared_) wrong += "saved blocks are miscounted; ";
  std::vector<int32_t> n_pins;
  for (const PrefixIndex::View& view : index_.nodes()) {
    claim(view.block, "shared");
    if (IsSaving(view.block)) --n_saving_shared;
    const auto id = static_cast<size_t>(view.node.value);
    if (n_pins.size() <= id) n_pins.resize(id + 1, 0);
    n_pins[id] = view.n_pins;
  }
  for (const Lease* lease : leases) {
    for (size_t i = 0; i < lease->blocks.size(); ++i) {
      if (lease->is_own[i] != 0) claim(lease->blocks[i], "private");
    }
    if (lease->node != PrefixIndex::kNone) --n_pins[static_cast<size_t>(lease->node.value)];
  }
  if (n_saving_shared != 0) wrong += "a block that is being saved is not shared; ";
  for (size_t i = 0; i < owner_of.size(); ++i) {
    if (owner_of[i] == nullptr) wrong += fmt::format("block {} is nowhere; ", i);
  }
  for (size_t i = 0; i < n_pins.size(); ++i) {
    if (n_pins[i] != 0) wrong += fmt::format("node {} has {} pins too many; ", i, n_pins[i]);
  }
  return wrong;
}

}  // namespace sluice::kv
