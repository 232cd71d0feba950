#include "kv/cache.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace sluice::kv {

Cache::Cache(const Params& params) : shares_(params.shares), pool_(params.n_blocks) {}

int32_t Cache::Look(const BlockKey& root, std::span<const TokenId> tokens, int32_t n_max) {
  return shares_ && n_max > 0 ? index_.Find(root, tokens, n_max).n_tokens() : 0;
}

std::optional<int32_t> Cache::Take(const Start& start, Lease& lease, Copy& copy) {
  SLUICE_CHECK(lease.blocks.empty() && lease.node == PrefixIndex::kNone);
  copy = {};
  PrefixIndex::Match match;
  if (shares_ && start.n_max > 0) match = index_.Find(start.root, start.tokens, start.n_max);
  lease.root = start.root;
  lease.blocks = index_.BlocksOf(match.node);
  lease.is_own.assign(lease.blocks.size(), 0);
  lease.n_sealed = static_cast<int32_t>(lease.blocks.size());
  MovePin(lease, match.node);
  const int64_t n_needed = Layout::BlocksFor(std::ssize(start.tokens)) - std::ssize(lease.blocks);
  if (!start.is_first && n_needed + start.n_spoken_for > n_available()) {
    Release(lease, {});
    return std::nullopt;
  }
  if (match.partial == PrefixIndex::kNone) return match.n_full;
  // Its rows are copied before anything else happens, so it may be evicted afterwards, not before.
  index_.Pin(match.partial);
  const bool has_block = n_available() > 0;
  if (has_block) {
    copy = {.from = index_.block(match.partial), .to = TakeBlock(), .n_tokens = match.n_partial};
    lease.blocks.push_back(copy.to);
    lease.is_own.push_back(1);
  }
  index_.Unpin(match.partial);
  return has_block ? match.n_tokens() : match.n_full;
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
      node = index_.Insert(lease.root, lease.node, tokens, lease.blocks[at]);
      lease.is_own[at] = 0;
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
  if (pool_.n_free() == 0) pool_.GiveBack(index_.Evict());
  return pool_.Take();
}

void Cache::MovePin(Lease& lease, NodeId to) {
  if (to != PrefixIndex::kNone) index_.Pin(to);
  if (lease.node != PrefixIndex::kNone) index_.Unpin(lease.node);
  lease.node = to;
}

std::string Cache::CheckInvariants(std::span<const Lease* const> leases) const {
  std::vector<const char*> owner_of(static_cast<size_t>(pool_.n_blocks()), nullptr);
  std::string wrong;
  const auto claim = [&](BlockId block, const char* owner) {
    const char*& at = owner_of[static_cast<size_t>(block.value)];
    if (at != nullptr) wrong += fmt::format("block {} is {} and {}; ", block.value, at, owner);
    at = owner;
  };
  for (const BlockId block : pool_.free()) claim(block, "free");
  for (const BlockId block : index_.dropped()) claim(block, "dropped");
  std::vector<int32_t> n_pins;
  for (const PrefixIndex::View& view : index_.nodes()) {
    claim(view.block, "shared");
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
  for (size_t i = 0; i < owner_of.size(); ++i) {
    if (owner_of[i] == nullptr) wrong += fmt::format("block {} is nowhere; ", i);
  }
  for (size_t i = 0; i < n_pins.size(); ++i) {
    if (n_pins[i] != 0) wrong += fmt::format("node {} has {} pins too many; ", i, n_pins[i]);
  }
  return wrong;
}

}  // namespace sluice::kv
