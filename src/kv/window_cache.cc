#include "kv/window_cache.h"

#include <algorithm>

namespace sluice::kv {
namespace {

// Compares from the end, where conversations differ.
bool BeginsWith(std::span<const TokenId> tokens, std::span<const TokenId> beginning) {
  return beginning.size() <= tokens.size() &&
         std::equal(beginning.rbegin(), beginning.rend(), tokens.first(beginning.size()).rbegin());
}

}  // namespace

WindowCache::WindowCache(int32_t first_slot, int32_t n_slots)
    : first_slot_(first_slot), n_slots_(n_slots) {
  entries_.reserve(static_cast<size_t>(n_slots));
}

WindowEntry* WindowCache::Keep(const BlockKey& root, std::span<const TokenId> tokens) {
  if (n_slots_ == 0) return nullptr;
  const auto is_same = [&](const WindowEntry& entry) {
    return entry.root == root && entry.tokens.size() == tokens.size() &&
           BeginsWith(tokens, entry.tokens);
  };
  auto at = std::ranges::find_if(entries_, is_same);
  if (at == entries_.end() && std::ssize(entries_) < n_slots_) {
    const auto slot = first_slot_ + static_cast<int32_t>(entries_.size());
    at = entries_.insert(entries_.end(), {.root = {}, .tokens = {}, .slot = SlotId(slot)});
  }
  if (at == entries_.end()) at = std::ranges::min_element(entries_, {}, &WindowEntry::used);
  at->root = root;
  at->tokens.assign(tokens.begin(), tokens.end());
  at->used = ++n_uses_;
  return &*at;
}

int32_t WindowCache::TokensServed(const WindowEntry& entry,
                                  const BlockKey& root,
                                  std::span<const TokenId> tokens,
                                  int32_t n_max) {
  const int32_t n = std::min(entry.n_tokens(), n_max) & ~1;
  if (n <= 0 || n < entry.n_least || entry.root != root) return 0;
  return BeginsWith(tokens, std::span(entry.tokens).first(static_cast<size_t>(n))) ? n : 0;
}

}  // namespace sluice::kv
