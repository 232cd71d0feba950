// PieceCache: the ids of short pieces that were merged before. Names, camel case and words of other
// languages come again and again in prompts, and merging them costs far more than finding them.
//
// Thread-safe without a lock: a slot is a handful of words that are read and written one by one,
// and its last word is a checksum of the others, so that what two threads have written over each
// other is not found. The piece itself is compared; wrong ids would need a collision of 64 bits in
// a race.

#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/ids.h"

namespace sluice::token {

class PieceCache {
 public:
  explicit PieceCache(uint64_t seed);

  static constexpr size_t kMaxPieceBytes = 63;
  static constexpr size_t kMaxTokens = 14;

  // Appends the ids of `piece`. False: it is not there.
  bool Find(std::string_view piece, std::vector<TokenId>& out) const;
  // Forgets whatever had its place. Pieces beyond the limits are not kept.
  void Keep(std::string_view piece, std::span<const TokenId> tokens);

 private:
  static constexpr size_t kNumSlots = 16'384;  // 2 MiB
  static constexpr size_t kPieceWords = (kMaxPieceBytes + 1) / 8;
  static constexpr size_t kWords = kPieceWords + kMaxTokens / 2;
  // The piece, zeros, its length in the last byte; then the ids, 0 behind the last one. An id is
  // kept as id + 1.
  using Words = std::array<uint64_t, kWords>;
  struct alignas(64) Slot {
    std::array<std::atomic<uint64_t>, kWords> words;
    std::atomic<uint64_t> check;
  };
  static_assert(sizeof(Slot) == 128);

  static void SetPiece(std::string_view piece, Words& words);
  uint64_t Mix(std::span<const uint64_t> words) const;

  const uint64_t seed_;
  std::vector<Slot> slots_;
};

}  // namespace sluice::token
