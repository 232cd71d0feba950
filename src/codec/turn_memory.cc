#include "codec/turn_memory.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "codec/visible_turn.h"

namespace sluice::codec {
namespace {

// What an entry costs besides its tokens: nodes of list and map, their two copies of the digests.
constexpr int64_t kEntryBytes = 320;

}  // namespace

int64_t TurnMemory::Entry::n_bytes() const {
  return static_cast<int64_t>(ids.size() * sizeof(TokenId)) + kEntryBytes;
}

std::optional<std::vector<TokenId>> TurnMemory::Find(const TurnPlace& place,
                                                     const Message& turn,
                                                     std::optional<TokenId> first) {
  const EntryId id = {.prefix = place.prefix, .visible = VisibleDigest(turn)};
  const bool has_reasoning = HasReasoning(turn);
  const Digest reasoning = ReasoningDigest(turn);
  MutexLock lock(mu_);
  const auto shelf = shelves_.find(place.key);
  if (shelf == shelves_.end()) return std::nullopt;
  const auto found = shelf->second.by_id.find(id);
  if (found == shelf->second.by_id.end()) return std::nullopt;
  const Entry& entry = *found->second;
  if (first && entry.ids.front() != *first) return std::nullopt;
  if (has_reasoning && entry.reasoning != reasoning) return std::nullopt;
  std::list<Entry>& entries = shelf->second.entries;
  entries.splice(entries.end(), entries, found->second);
  return entry.ids;
}

void TurnMemory::Keep(const TurnPlace& place, const Message& turn, std::vector<TokenId> ids) {
  SLUICE_CHECK(!ids.empty());
  Entry entry = {.id = {.prefix = place.prefix, .visible = VisibleDigest(turn)},
                 .reasoning = ReasoningDigest(turn),
                 .ids = std::move(ids)};
  const int64_t n_bytes = entry.n_bytes();
  if (n_bytes > n_bytes_max_) return;
  MutexLock lock(mu_);
  if (const auto own = shelves_.find(place.key); own != shelves_.end()) {
    const auto same = own->second.by_id.find(entry.id);
    if (same != own->second.by_id.end()) Drop(own->second, same->second);
  }
  while (n_kept_bytes_ + n_bytes > n_bytes_max_) DropOldest();
  Shelf& shelf = shelves_[place.key];
  shelf.entries.push_back(std::move(entry));
  const auto kept = std::prev(shelf.entries.end());
  shelf.by_id.emplace(kept->id, kept);
  shelf.n_bytes += n_bytes;
  n_kept_bytes_ += n_bytes;
}

void TurnMemory::Drop(Shelf& shelf, std::list<Entry>::iterator entry) {
  const int64_t n_bytes = entry->n_bytes();
  shelf.n_bytes -= n_bytes;
  n_kept_bytes_ -= n_bytes;
  shelf.by_id.erase(entry->id);
  shelf.entries.erase(entry);
}

// A busy key makes room at its own cost.
void TurnMemory::DropOldest() {
  const auto largest = std::ranges::max_element(
      shelves_, {}, [](const Shelves::value_type& shelf) { return shelf.second.n_bytes; });
  SLUICE_CHECK(largest != shelves_.end() && !largest->second.entries.empty());
  Drop(largest->second, largest->second.entries.begin());
  if (largest->second.entries.empty()) shelves_.erase(largest);
}

bool TurnMemory::Reserve(int64_t n_bytes) {
  MutexLock lock(mu_);
  if (n_reserved_bytes_ + n_bytes > n_bytes_max_) return false;
  n_reserved_bytes_ += n_bytes;
  return true;
}

void TurnMemory::Release(int64_t n_bytes) {
  MutexLock lock(mu_);
  n_reserved_bytes_ -= n_bytes;
}

int64_t TurnMemory::n_bytes() const {
  MutexLock lock(mu_);
  return n_kept_bytes_ + n_reserved_bytes_;
}

}  // namespace sluice::codec
