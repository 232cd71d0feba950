// WholeCharacters: where merging may start from a character instead of its bytes. In texts of
// Chinese, most of the merges only put characters together again.
//
// Starting there changes no id, because of two facts that are looked up in the vocabulary, not
// taken for granted:
// 1. No merge puts a part of a character beside something of its neighbour, at the boundaries that
//    the character has in this text: so its own bytes are merged with each other only.
// 2. A token is merged by later merges than those that make it. Then merges happen in the order of
//    their ranks, and those of the character's bytes come before any that it takes part in.
// A vocabulary without the second fact has no such characters.
//
// Immutable; any thread may read.

#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "token/vocabulary.h"

namespace sluice::token {

class WholeCharacters {
 public:
  // `is_whole`: [vocabulary size], whether merging the bytes of a token gives that token.
  WholeCharacters(const Vocabulary& vocabulary, std::span<const uint8_t> is_whole);

  // Bytes of the character at `pos` of `piece` that is one token from the start, and that token; 0:
  // there is none.
  size_t Find(std::string_view piece, size_t pos, TokenId& id) const;

 private:
  static constexpr size_t kNumPoints = 0x10000;  // Basic Multilingual Plane

  bool IsApart(std::string_view piece, size_t pos) const;

  std::vector<int32_t> ids_;      // [kNumPoints]; -1: the character is not one token
  std::bitset<0x10000> crossed_;  // byte before << 8 | first byte behind a boundary
};

}  // namespace sluice::token
