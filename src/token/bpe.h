// Bpe: text to token ids. Text is cut into pieces (pretokenizer.h); within a piece the pair of
// neighbours whose merge has the lowest rank is merged, the leftmost of equal ones, until no pair
// has a merge. No token is put before or behind the text (spec recipe.md §10).
//
// 1. The texts of the ids joined are the text, whatever bytes it has: for rules with NFC the text
//    in NFC, and without the bytes that a vocabulary lacks, as the reference does.
// 2. n bytes take O(n log n) time, also as one piece, and nothing recurses.
// Any thread may call; all share what they remember of short pieces. The vocabulary must outlive
// it.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "token/piece_cache.h"
#include "token/vocabulary.h"
#include "token/whole_characters.h"

namespace sluice::token {

// The rank of the merge of two tokens.
class MergeRanks {
 public:
  explicit MergeRanks(const Vocabulary& vocabulary);

  static constexpr int32_t kNone = INT32_MAX;
  int32_t Find(TokenId left, TokenId right) const;
  // Of two bytes, with which every piece begins.
  int32_t FindOfBytes(unsigned char left, unsigned char right) const {
    return of_bytes_[static_cast<size_t>(left) << 8 | right];
  }

 private:
  size_t SlotOf(uint64_t pair) const { return static_cast<size_t>((pair * factor_) >> shift_); }

  uint64_t factor_;
  int shift_;
  std::vector<uint64_t> slots_;    // pair << kRankBits | rank
  std::vector<int32_t> of_bytes_;  // [256][256]
};

class Bpe {
 public:
  explicit Bpe(const Vocabulary& vocabulary);

  // Appends the ids of `text`, below 2 GiB, in which nothing is an added token: for everything that
  // a client wrote, whatever it spells. Memory: up to 64 bytes for each byte of the longest piece.
  void Encode(std::string_view text, std::vector<TokenId>& out) const;

  // The same, where the spelling of an added token is that token: the leftmost first, the longest
  // of those that begin there. For text of our own, and of whoever sits at the command line.
  void EncodeWithAdded(std::string_view text, std::vector<TokenId>& out) const;

 private:
  // A token of the piece being merged; by the position of its first byte.
  struct Symbol {
    TokenId id;
    int32_t rank;      // of its merge with the next one; kNone also for one that is merged away
    int32_t previous;  // position of the token before; nothing for the first one
    int32_t next;      // and of the one behind: the piece's length for the last one
  };
  struct Scratch {
    std::vector<Symbol> symbols;
    std::vector<uint64_t> queue;  // rank << 32 | position, the least first
    std::string known;            // a piece without the bytes that the vocabulary lacks
  };

  void EncodeKnown(std::string_view piece, Scratch& scratch, std::vector<TokenId>& out) const;
  void EncodePiece(std::string_view piece, Scratch& scratch, std::vector<TokenId>& out) const;
  void MergeAll(std::string_view piece, Scratch& scratch) const;
  void MergeByHeap(Scratch& scratch) const;
  void MergeByRank(Scratch& scratch) const;
  void Split(std::string_view piece, Scratch& scratch) const;
  void MergeAt(int32_t pos, Scratch& scratch) const;
  int32_t RankAt(int32_t pos, const Scratch& scratch) const;
  void FindRank(int32_t pos, Scratch& scratch) const;
  // Bytes of the longest added token that `text` begins with, and its id; 0: none.
  size_t AddedAtBegin(std::string_view text, TokenId& id) const;

  const Vocabulary& vocabulary_;
  const MergeRanks ranks_;
  std::vector<uint8_t> is_whole_;  // [vocabulary size]: encoding its text gives this token
  std::optional<WholeCharacters> characters_;  // once is_whole_ is known
  std::vector<uint8_t> may_begin_added_;       // [256], by the first byte
  mutable PieceCache cache_;                   // of pieces that are more than one token
};

}  // namespace sluice::token
