#include "token/token_texts.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"

namespace sluice::token {
namespace {

// Both halves of a product of 128 bits depend on all bits of both factors.
uint64_t Mix(uint64_t a, uint64_t b) {
  const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

uint64_t HashOf(std::string_view text, uint64_t seed) {
  // The fraction of the golden ratio: bits without a pattern.
  constexpr uint64_t kFactor = 0x9E3779B97F4A7C15;
  uint64_t hash = seed ^ text.size();
  while (text.size() >= sizeof(uint64_t)) {
    uint64_t word;
    std::memcpy(&word, text.data(), sizeof(word));
    hash = Mix(hash ^ word, kFactor);
    text.remove_prefix(sizeof(word));
  }
  uint64_t tail = 0;
  for (const char c : text) tail = tail << 8 | static_cast<unsigned char>(c);
  return Mix(hash ^ tail, kFactor);
}

uint32_t TagOf(uint64_t hash) { return static_cast<uint32_t>(hash >> 32); }

}  // namespace

void TokenTexts::Append(std::string_view text) {
  bytes_ += text;
  SLUICE_CHECK(bytes_.size() <= UINT32_MAX);
  ends_.push_back(static_cast<uint32_t>(bytes_.size()));
}

int32_t TokenTexts::Index(std::span<const uint8_t> is_found, uint64_t seed) {
  SLUICE_CHECK(is_found.size() == ends_.size());
  seed_ = seed;
  slots_.assign(std::bit_ceil(2 * ends_.size() + 1), Slot{});
  for (int32_t id = 0; id < size(); ++id) {
    if (is_found[static_cast<size_t>(id)] == 0) continue;
    const std::string_view text = (*this)[id];
    n_found_max_ = std::max(n_found_max_, text.size());
    const uint64_t hash = HashOf(text, seed_);
    size_t at = hash & (slots_.size() - 1);
    for (; slots_[at].id >= 0; at = (at + 1) & (slots_.size() - 1)) {
      if (slots_[at].tag == TagOf(hash) && (*this)[slots_[at].id] == text) return id;
    }
    slots_[at] = {.tag = TagOf(hash), .id = id};
  }
  return -1;
}

int32_t TokenTexts::Find(std::string_view text) const {
  if (text.size() > n_found_max_) return -1;
  const uint64_t hash = HashOf(text, seed_);
  const uint32_t tag = TagOf(hash);
  for (size_t at = hash & (slots_.size() - 1);; at = (at + 1) & (slots_.size() - 1)) {
    const Slot slot = slots_[at];
    if (slot.id < 0) return -1;
    if (slot.tag == tag && (*this)[slot.id] == text) return slot.id;
  }
}

}  // namespace sluice::token
