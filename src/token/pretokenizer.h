// Pretokenizer: cuts text into the pieces within which tokens merge. It knows three sets of rules.
// In the first one each rule applies to the pieces that the one before left, and what lies between
// two matches stays a piece.
//
// kDeepseekV3, of DeepSeek-V3 and later (spec recipe.md §10):
//   1. one to three numbers, from the left
//   2. runs of Chinese and Japanese characters (kCjk)
//   3. the first of: an ASCII symbol and ASCII letters | an optional character that is no letter,
//      symbol or newline, and letters or marks | an optional space, symbols, and newlines | white
//      space that ends with newlines | white space that no other text of the piece follows | white
//      space
// kSmollm, of SmolLM2: each number by itself; of the rest the first of: 's 't 're 've 'm 'll 'd |
//      an optional space and letters | an optional space and other characters | white space as
//      above
// kQwen2, of Qwen2 and Qwen2.5, whose text is put into NFC before: the first of: 's and so on in
//      any case | an optional character that is no letter, number or newline, and letters | one
//      number | an optional space, characters that are none of these nor white space, and newlines
//      | white space that ends with newlines | white space as above
//
// 1. The pieces joined are the text.
// 2. Time is linear, whatever the text is.
// Owned by one thread. A byte that is not UTF-8 is a character of no class.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "token/character_class.h"

namespace sluice::token {

enum class TextRules : uint8_t { kDeepseekV3, kSmollm, kQwen2 };

// The rules that the member pre_tokenizer of a tokenizer.json asks for; kUnsupported, saying what
// differs, if they are none of these.
Result<TextRules> FindTextRules(JsonValue pre_tokenizer);

// Those that a GGUF names in tokenizer.ggml.pre; kUnsupported with the list of the known.
Result<TextRules> TextRulesNamed(std::string_view pre);

class Pretokenizer {
 public:
  Pretokenizer(std::string_view text, TextRules rules)
      : text_(text), rules_(rules), classes_(CharacterClasses()) {}

  // The next piece; empty at the end of the text.
  std::string_view Next();

 private:
  struct Character {
    uint8_t classes = 0;
    uint8_t n_bytes = 0;  // 0: the end of the text
  };
  Character At(size_t pos) const;
  Character WideAt(size_t pos) const;
  size_t EndOfPiece(size_t begin) const;

  size_t EndOfDeepseekPiece(size_t begin) const;
  // The first character from `pos` on that has none of `classes` or is of another split than
  // `segment` (kCjk or 0).
  size_t EndOfRun(size_t pos, uint8_t classes, uint8_t segment) const;
  size_t EndOfNumbers(size_t begin) const;
  size_t EndOfAsciiLetters(size_t begin) const;
  // `cut_off`: classes of characters that the rules before have cut off.
  size_t EndOfSpaces(size_t begin, uint8_t cut_off, bool ends_at_newline) const;
  size_t EndOfUnmatched(size_t begin, uint8_t segment) const;

  size_t EndOfSmollmPiece(size_t begin) const;
  size_t EndOfQwenPiece(size_t begin) const;
  size_t EndOfContraction(size_t begin, bool in_any_case) const;
  size_t EndOfClass(size_t begin, uint8_t wanted) const;
  size_t EndOfOthers(size_t begin) const;  // neither letters nor numbers nor white space

  const std::string_view text_;
  const TextRules rules_;
  const uint8_t* const classes_;
  size_t at_ = 0;
};

}  // namespace sluice::token
