// WindowCache: the private state (windows and open groups) of sequences that ended or stood at the
// end of their prompt, by the tokens that led to it. A sequence that goes on there need not run
// rows again to rebuild it. Least recently used ones make room.
//
// Knows no bytes: it names slots of kv::Memory, and the caller copies. Owned by the engine thread.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "kv/block_key.h"

namespace sluice::kv {

struct WindowEntry {
  BlockKey root;
  std::vector<TokenId> tokens;  // that have run
  SlotId slot;
  int32_t n_least = 0;  // the state serves for any number of its tokens from here on
  int32_t n_prompt = 0;
  int32_t window_begin = 0;  // as of the sequence that it comes from
  int32_t decoder_begin = 0;
  uint64_t used = 0;

  int32_t n_tokens() const { return static_cast<int32_t>(tokens.size()); }
};

class WindowCache {
 public:
  // Slots [first_slot, first_slot + n_slots).
  WindowCache(int32_t first_slot, int32_t n_slots);

  // The entry to fill, whose slot is the caller's to write; null: there are no slots. `tokens` say
  // which one it replaces.
  WindowEntry* Keep(const BlockKey& root, std::span<const TokenId> tokens);

  // Of the entries that serve for a beginning of `tokens`, at most n_max and an even number of
  // them, the one that serves for most; null: none. Counts as a use. `serves`: what the caller asks
  // of an entry besides, used for so many tokens.
  struct Match {
    const WindowEntry* entry = nullptr;
    int32_t n_tokens = 0;
  };
  template <typename Serves>
  Match Find(const BlockKey& root,
             std::span<const TokenId> tokens,
             int32_t n_max,
             const Serves& serves) {
    Match best;
    for (WindowEntry& entry : entries_) {
      const int32_t n = TokensServed(entry, root, tokens, n_max);
      if (n <= best.n_tokens || !serves(entry, n)) continue;
      best = {.entry = &entry, .n_tokens = n};
      entry.used = ++n_uses_;
    }
    return best;
  }

  int32_t n_entries() const { return static_cast<int32_t>(entries_.size()); }

 private:
  // 0: it does not serve.
  static int32_t TokensServed(const WindowEntry& entry,
                              const BlockKey& root,
                              std::span<const TokenId> tokens,
                              int32_t n_max);

  const int32_t first_slot_;
  const int32_t n_slots_;
  std::vector<WindowEntry> entries_;
  uint64_t n_uses_ = 0;
};

}  // namespace sluice::kv
