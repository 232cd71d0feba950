// EvictedKeys: names of blocks that the prefix index has lost lately, so that a miss can be told
// from a prompt that never was there. Remembers as many as there are blocks, the latest ones. Owned
// by the engine thread.

#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "kv/block_key.h"

namespace sluice::kv {

class EvictedKeys {
 public:
  explicit EvictedKeys(int32_t n_max) : ring_(static_cast<size_t>(n_max)) {}

  void Add(const BlockKey& key);
  // It is there again.
  void Remove(const BlockKey& key) { place_of_.erase(ShortOf(key)); }
  bool Has(const BlockKey& key) const { return place_of_.contains(ShortOf(key)); }

 private:
  // A wrong answer is a wrong count and nothing else.
  static uint64_t ShortOf(const BlockKey& key);

  std::vector<uint64_t> ring_;
  std::unordered_map<uint64_t, size_t> place_of_;  // in ring_
  size_t next_ = 0;
};

}  // namespace sluice::kv
