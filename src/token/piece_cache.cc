#include "token/piece_cache.h"

#include <algorithm>
#include <cstring>

namespace sluice::token {

PieceCache::PieceCache(uint64_t seed) : seed_(seed | 1), slots_(kNumSlots) {}

void PieceCache::SetPiece(std::string_view piece, Words& words) {
  std::array<char, kPieceWords * 8> bytes{};
  std::memcpy(bytes.data(), piece.data(), piece.size());
  bytes.back() = static_cast<char>(piece.size());
  std::memcpy(words.data(), bytes.data(), bytes.size());
}

// Multiply and fold, word by word: 64 x 64 bits have all bits of the product in play.
uint64_t PieceCache::Mix(std::span<const uint64_t> words) const {
  uint64_t state = seed_;
  for (const uint64_t word : words) {
    const auto product = static_cast<unsigned __int128>(state ^ word) * 0x9E3779B97F4A7C15u;
    state = static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64) ^ seed_;
  }
  return state;
}

bool PieceCache::Find(std::string_view piece, std::vector<TokenId>& out) const {
  if (piece.size() > kMaxPieceBytes) return false;
  Words wanted{};
  SetPiece(piece, wanted);
  const std::span<const uint64_t> key = std::span(wanted).first(kPieceWords);
  const Slot& slot = slots_[Mix(key) % kNumSlots];
  Words words;
  for (size_t i = 0; i < kWords; ++i) words[i] = slot.words[i].load(std::memory_order_relaxed);
  if (!std::equal(key.begin(), key.end(), words.begin())) return false;
  if (Mix(words) != slot.check.load(std::memory_order_relaxed)) return false;
  for (size_t i = 0; i < kMaxTokens; ++i) {
    const auto id = static_cast<int32_t>(words[kPieceWords + i / 2] >> (i % 2 * 32) & UINT32_MAX);
    if (id == 0) break;
    out.emplace_back(id - 1);
  }
  return true;
}

void PieceCache::Keep(std::string_view piece, std::span<const TokenId> tokens) {
  if (piece.size() > kMaxPieceBytes || tokens.size() > kMaxTokens) return;
  Words words{};
  SetPiece(piece, words);
  for (size_t i = 0; i < tokens.size(); ++i) {
    words[kPieceWords + i / 2] |= static_cast<uint64_t>(tokens[i].value + 1) << (i % 2 * 32);
  }
  Slot& slot = slots_[Mix(std::span(words).first(kPieceWords)) % kNumSlots];
  for (size_t i = 0; i < kWords; ++i) slot.words[i].store(words[i], std::memory_order_relaxed);
  slot.check.store(Mix(words), std::memory_order_relaxed);
}

}  // namespace sluice::token
