#include "token/bpe.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <map>

#include "base/check.h"
#include "base/limits.h"
#include "token/nfc.h"
#include "token/pretokenizer.h"

namespace sluice::token {
namespace {

// A pair and its rank are one number.
constexpr int kIdBits = 20, kRankBits = 24;
static_assert(limits::kMaxVocabularyTokens <= 1 << kIdBits);
static_assert(limits::kMaxVocabularyMerges < (1 << kRankBits) - 1);
static_assert(2 * kIdBits + kRankBits == 64);

constexpr uint64_t kFreeSlot = UINT64_MAX;  // no merge has the rank in its low bits

// In the queue.
uint64_t EntryOf(int32_t rank, int32_t pos) {
  return static_cast<uint64_t>(rank) << 32 | static_cast<uint64_t>(pos);
}
int32_t RankOf(uint64_t entry) { return static_cast<int32_t>(entry >> 32); }
int32_t PosOf(uint64_t entry) { return static_cast<int32_t>(entry & UINT32_MAX); }

// Longer pieces are merged rank by rank.
constexpr size_t kLongPieceBytes = 4096;

uint64_t PairOf(TokenId left, TokenId right) {
  return static_cast<uint64_t>(left.value) << kIdBits | static_cast<uint64_t>(right.value);
}

bool LacksByte(const Vocabulary& vocabulary, char byte) {
  return vocabulary.byte_tokens()[static_cast<unsigned char>(byte)].value < 0;
}

}  // namespace

// At most two thirds of the slots are used, so that the table stays small: most of the time of
// merging is waiting for it. The factor comes from the file's hash: for a known one, pairs could be
// chosen that collide.
MergeRanks::MergeRanks(const Vocabulary& vocabulary) : factor_(vocabulary.hash_seed() | 1) {
  const size_t n_slots = std::bit_ceil(vocabulary.merges().size() * 3 / 2 + 2);
  shift_ = 64 - std::countr_zero(n_slots);
  slots_.assign(n_slots, kFreeSlot);
  uint64_t rank = 0;
  for (const Merge& merge : vocabulary.merges()) {
    const uint64_t pair = PairOf(merge.left, merge.right);
    size_t at = SlotOf(pair);
    while (slots_[at] != kFreeSlot) at = (at + 1) & (n_slots - 1);
    slots_[at] = pair << kRankBits | rank++;
  }
  of_bytes_.reserve(256 * 256);
  for (const TokenId left : vocabulary.byte_tokens()) {
    for (const TokenId right : vocabulary.byte_tokens()) {
      const bool is_pair = left.value >= 0 && right.value >= 0;
      of_bytes_.push_back(is_pair ? Find(left, right) : kNone);
    }
  }
}

int32_t MergeRanks::Find(TokenId left, TokenId right) const {
  const uint64_t pair = PairOf(left, right);
  const size_t mask = slots_.size() - 1;
  for (size_t at = SlotOf(pair);; at = (at + 1) & mask) {
    const uint64_t slot = slots_[at];
    if (slot == kFreeSlot) return kNone;
    if (slot >> kRankBits == pair) return static_cast<int32_t>(slot & ((1 << kRankBits) - 1));
  }
}

Bpe::Bpe(const Vocabulary& vocabulary)
    : vocabulary_(vocabulary),
      ranks_(vocabulary),
      may_begin_added_(256),
      cache_(vocabulary.hash_seed()) {
  const auto lacks = [&](char byte) { return LacksByte(vocabulary, byte); };
  Scratch scratch;
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    const std::string_view text = vocabulary.text(TokenId(id));
    const bool is_known = !vocabulary.lacks_bytes() || std::ranges::none_of(text, lacks);
    if (is_known) MergeAll(text, scratch);
    is_whole_.push_back(is_known && scratch.symbols[0].id == TokenId(id) ? 1 : 0);
  }
  characters_.emplace(vocabulary, is_whole_);
  for (const AddedToken& added : vocabulary.added()) {
    may_begin_added_[static_cast<unsigned char>(vocabulary.text(added.id)[0])] = 1;
  }
}

void Bpe::Encode(std::string_view text, std::vector<TokenId>& out) const {
  SLUICE_CHECK(text.size() < INT32_MAX);
  Scratch scratch;
  std::string composed;
  if (vocabulary_.rules() == TextRules::kQwen2) text = ToNfc(text, composed);
  Pretokenizer pieces(text, vocabulary_.rules());
  for (std::string_view piece = pieces.Next(); !piece.empty(); piece = pieces.Next()) {
    vocabulary_.lacks_bytes() ? EncodeKnown(piece, scratch, out) : EncodePiece(piece, scratch, out);
  }
}

void Bpe::EncodeKnown(std::string_view piece, Scratch& scratch, std::vector<TokenId>& out) const {
  const auto lacks = [&](char byte) { return LacksByte(vocabulary_, byte); };
  if (std::ranges::none_of(piece, lacks)) return EncodePiece(piece, scratch, out);
  scratch.known = piece;
  std::erase_if(scratch.known, lacks);
  if (!scratch.known.empty()) EncodePiece(scratch.known, scratch, out);
}

void Bpe::EncodeWithAdded(std::string_view text, std::vector<TokenId>& out) const {
  size_t begin = 0;  // of the text that is not encoded yet
  for (size_t pos = 0; pos < text.size();) {
    TokenId id;
    const size_t n_bytes = AddedAtBegin(text.substr(pos), id);
    if (n_bytes == 0) {
      ++pos;
      continue;
    }
    Encode(text.substr(begin, pos - begin), out);
    out.push_back(id);
    pos += n_bytes;
    begin = pos;
  }
  Encode(text.substr(begin), out);
}

// Most pieces of most texts are one token; its merges were tried when this was built.
void Bpe::EncodePiece(std::string_view piece, Scratch& scratch, std::vector<TokenId>& out) const {
  const int32_t id = vocabulary_.texts().Find(piece);
  if (id >= 0 && is_whole_[static_cast<size_t>(id)] != 0) {
    out.emplace_back(id);
    return;
  }
  if (cache_.Find(piece, out)) return;
  const size_t n_before = out.size();
  MergeAll(piece, scratch);
  const auto n_bytes = static_cast<int32_t>(piece.size());
  for (int32_t pos = 0; pos < n_bytes;) {
    const Symbol& symbol = scratch.symbols[static_cast<size_t>(pos)];
    out.push_back(symbol.id);
    pos = symbol.next;
  }
  cache_.Keep(piece, std::span(out).subspan(n_before));
}

void Bpe::MergeAll(std::string_view piece, Scratch& scratch) const {
  Split(piece, scratch);
  piece.size() > kLongPieceBytes ? MergeByRank(scratch) : MergeByHeap(scratch);
}

void Bpe::MergeByHeap(Scratch& scratch) const {
  std::vector<uint64_t>& queue = scratch.queue;
  std::make_heap(queue.begin(), queue.end(), std::greater<>());
  while (!queue.empty()) {
    std::pop_heap(queue.begin(), queue.end(), std::greater<>());
    const int32_t rank = RankOf(queue.back());
    const int32_t pos = PosOf(queue.back());
    queue.pop_back();
    // An entry whose pair has changed since is left over; the new pair has an entry of its own.
    if (scratch.symbols[static_cast<size_t>(pos)].rank != rank) continue;
    auto end = static_cast<std::ptrdiff_t>(queue.size());
    MergeAt(pos, scratch);
    while (end < std::ssize(queue)) {
      std::push_heap(queue.begin(), queue.begin() + ++end, std::greater<>());
    }
  }
}

// The same for a long piece, of which few ranks have many entries: a heap of them all would be read
// all over memory for each.
void Bpe::MergeByRank(Scratch& scratch) const {
  std::map<int32_t, std::vector<int32_t>> by_rank;  // positions
  const auto sort_in = [&] {
    for (const uint64_t entry : scratch.queue) by_rank[RankOf(entry)].push_back(PosOf(entry));
    scratch.queue.clear();
  };
  sort_in();
  while (!by_rank.empty()) {
    auto node = by_rank.extract(by_rank.begin());
    const int32_t rank = node.key();
    std::vector<int32_t>& positions = node.mapped();
    std::ranges::sort(positions);
    for (size_t i = 0; i < positions.size(); ++i) {
      if (scratch.symbols[static_cast<size_t>(positions[i])].rank != rank) continue;
      MergeAt(positions[i], scratch);
      sort_in();
      if (by_rank.empty() || by_rank.begin()->first > rank) continue;
      // A vocabulary that merges a token before those it is made of: they go first.
      for (const int32_t pos : std::span(positions).subspan(i + 1)) {
        scratch.queue.push_back(EntryOf(rank, pos));
      }
      for (const auto& [later, rest] : by_rank) {
        for (const int32_t pos : rest) scratch.queue.push_back(EntryOf(later, pos));
      }
      return MergeByHeap(scratch);
    }
  }
}

// The bytes, or whole characters, that merging starts from.
void Bpe::Split(std::string_view piece, Scratch& scratch) const {
  const auto n_bytes = static_cast<int32_t>(piece.size());
  std::vector<Symbol>& symbols = scratch.symbols;
  symbols.resize(piece.size());
  scratch.queue.clear();
  int32_t previous = -1;
  for (int32_t pos = 0; pos < n_bytes;) {
    const auto at = static_cast<size_t>(pos);
    const auto byte = static_cast<unsigned char>(piece[at]);
    Symbol& symbol = symbols[at];
    symbol = {.id = vocabulary_.byte_tokens()[byte],
              .rank = MergeRanks::kNone,
              .previous = previous,
              .next = pos + 1};
    if (byte >= 0x80 && characters_) {
      const size_t n = characters_->Find(piece, at, symbol.id);
      if (n > 0) symbol.next = pos + static_cast<int32_t>(n);
    }
    previous = pos;
    pos = symbol.next;
  }
  for (int32_t pos = 0; pos < n_bytes; pos = symbols[static_cast<size_t>(pos)].next) {
    Symbol& symbol = symbols[static_cast<size_t>(pos)];
    const bool are_bytes = symbol.next == pos + 1 && symbol.next < n_bytes &&
                           symbols[static_cast<size_t>(symbol.next)].next == symbol.next + 1;
    symbol.rank = are_bytes ? ranks_.FindOfBytes(
                                  static_cast<unsigned char>(piece[static_cast<size_t>(pos)]),
                                  static_cast<unsigned char>(piece[static_cast<size_t>(pos) + 1]))
                            : RankAt(pos, scratch);
    if (symbol.rank != MergeRanks::kNone) scratch.queue.push_back(EntryOf(symbol.rank, pos));
  }
}

// Merges the token at `pos` with the next one.
void Bpe::MergeAt(int32_t pos, Scratch& scratch) const {
  std::vector<Symbol>& symbols = scratch.symbols;
  Symbol& left = symbols[static_cast<size_t>(pos)];
  Symbol& right = symbols[static_cast<size_t>(left.next)];
  left.id = vocabulary_.merges()[static_cast<size_t>(left.rank)].result;
  left.next = right.next;
  right.rank = MergeRanks::kNone;
  if (left.next < static_cast<int32_t>(symbols.size())) {
    symbols[static_cast<size_t>(left.next)].previous = pos;
  }
  FindRank(pos, scratch);
  if (pos > 0) FindRank(left.previous, scratch);
}

// Of the merge of the token at `pos` with its next one.
int32_t Bpe::RankAt(int32_t pos, const Scratch& scratch) const {
  const Symbol& symbol = scratch.symbols[static_cast<size_t>(pos)];
  if (symbol.next == static_cast<int32_t>(scratch.symbols.size())) return MergeRanks::kNone;
  return ranks_.Find(symbol.id, scratch.symbols[static_cast<size_t>(symbol.next)].id);
}

void Bpe::FindRank(int32_t pos, Scratch& scratch) const {
  const int32_t rank = RankAt(pos, scratch);
  scratch.symbols[static_cast<size_t>(pos)].rank = rank;
  if (rank == MergeRanks::kNone) return;
  scratch.queue.push_back(EntryOf(rank, pos));
}

// The added tokens are ordered by their bytes, so those that begin with the same bytes lie
// together: with each byte of the text the range gets narrower.
size_t Bpe::AddedAtBegin(std::string_view text, TokenId& id) const {
  if (may_begin_added_[static_cast<unsigned char>(text[0])] == 0) return 0;
  std::span<const AddedToken> range = vocabulary_.added();
  size_t n_found = 0;
  for (size_t n = 0; n < text.size() && !range.empty(); ++n) {
    // Of spellings that share n bytes: the next one, as a number; 0 for one that ends here.
    const auto next_byte = [&](const AddedToken& added) {
      const std::string_view spelling = vocabulary_.text(added.id);
      return n < spelling.size() ? 1 + static_cast<unsigned char>(spelling[n]) : 0;
    };
    const int wanted = 1 + static_cast<unsigned char>(text[n]);
    const auto begin = std::partition_point(
        range.begin(), range.end(), [&](const AddedToken& a) { return next_byte(a) < wanted; });
    const auto end = std::partition_point(
        begin, range.end(), [&](const AddedToken& a) { return next_byte(a) == wanted; });
    range = {begin, end};
    if (range.empty() || vocabulary_.text(range.front().id).size() != n + 1) continue;
    id = range.front().id;
    n_found = n + 1;
  }
  return n_found;
}

}  // namespace sluice::token
