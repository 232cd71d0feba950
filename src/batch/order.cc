#include "batch/order.h"

#include <algorithm>

namespace sluice::batch {
namespace {

// The cache shares nothing shorter than a block; that blocks have this size is only a guess here.
constexpr int64_t kFirstTokens = 64;

// 1, 2, 3, 4, 6, 8, 12, ... times kFirstTokens.
constexpr int64_t TokensOf(size_t level) {
  if (level == 0) return kFirstTokens;
  const int64_t octave = kFirstTokens << ((level + 1) / 2);
  return level % 2 == 1 ? octave : octave / 2 * 3;
}
static_assert(TokensOf(1) == 128 && TokensOf(2) == 192 && TokensOf(3) == 256);
static_assert(TokensOf(PrefixKey::kNumLevels - 1) == 262'144);

// FNV-1a over ids, a word at a time.
constexpr uint64_t kBasis = 0xcbf29ce484222325;
constexpr uint64_t kPrime = 0x100000001b3;

uint16_t Fold(uint64_t hash) {
  hash ^= hash >> 32;
  hash ^= hash >> 16;
  return static_cast<uint16_t>(std::max<uint64_t>(hash & 0xFFFF, 1));
}

}  // namespace

PrefixKey KeyOf(std::span<const TokenId> prompt) {
  PrefixKey key;
  uint64_t hash = kBasis;
  int64_t pos = 0;
  for (size_t level = 0; level < PrefixKey::kNumLevels; ++level) {
    if (std::ssize(prompt) < TokensOf(level)) break;
    for (; pos < TokensOf(level); ++pos) {
      hash = (hash ^ static_cast<uint64_t>(prompt[static_cast<size_t>(pos)].value)) * kPrime;
    }
    key.levels[level] = Fold(hash);
  }
  return key;
}

}  // namespace sluice::batch
