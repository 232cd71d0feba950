// Pretokenizer: cuts text into the pieces within which tokens merge. It knows one set of rules,
// that of DeepSeek-V3 and later (spec recipe.md §10). Each rule applies to the pieces that the one
// before left; what lies between two matches stays a piece:
//   1. one to three numbers, from the left
//   2. runs of Chinese and Japanese characters (kCjk)
//   3. the first of: an ASCII symbol and ASCII letters | an optional character that is no letter,
//      symbol or newline, and letters or marks | an optional space, symbols, and newlines | white
//      space that ends with newlines | white space that no other text of the piece follows | white
//      space
//
// 1. The pieces joined are the text.
// 2. Time is linear, whatever the text is.
// Owned by one thread. A byte that is not UTF-8 is a character of no class.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/json.h"
#include "base/status.h"
#include "token/character_class.h"

namespace sluice::token {

// kUnsupported, saying what differs, unless the member pre_tokenizer of a tokenizer.json asks for
// the rules above.
Status CheckPretokenizer(JsonValue pre_tokenizer);

class Pretokenizer {
 public:
  explicit Pretokenizer(std::string_view text) : text_(text), classes_(CharacterClasses()) {}

  // The next piece; empty at the end of the text.
  std::string_view Next();

 private:
  struct Character {
    uint8_t classes = 0;
    uint8_t n_bytes = 0;  // 0: the end of the text
  };
  Character At(size_t pos) const;
  Character WideAt(size_t pos) const;
  // The first character from `pos` on that has none of `classes` or is of another split than
  // `segment` (kCjk or 0).
  size_t EndOfRun(size_t pos, uint8_t classes, uint8_t segment) const;
  size_t EndOfPiece(size_t begin) const;
  size_t EndOfNumbers(size_t begin) const;
  size_t EndOfAsciiLetters(size_t begin) const;
  size_t EndOfSpaces(size_t begin) const;
  size_t EndOfUnmatched(size_t begin, uint8_t segment) const;

  const std::string_view text_;
  const uint8_t* const classes_;
  size_t at_ = 0;
};

}  // namespace sluice::token
