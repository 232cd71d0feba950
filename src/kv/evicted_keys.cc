#include "kv/evicted_keys.h"

#include <cstring>

namespace sluice::kv {

uint64_t EvictedKeys::ShortOf(const BlockKey& key) {
  uint64_t bits = 0;
  std::memcpy(&bits, key.bytes.data(), sizeof bits);
  return bits;
}

void EvictedKeys::Add(const BlockKey& key) {
  if (ring_.empty()) return;
  // The one that makes room may have been there again, and may have a later place by now.
  const auto oldest = place_of_.find(ring_[next_]);
  if (oldest != place_of_.end() && oldest->second == next_) place_of_.erase(oldest);
  ring_[next_] = ShortOf(key);
  place_of_[ring_[next_]] = next_;
  next_ = (next_ + 1) % ring_.size();
}

}  // namespace sluice::kv
