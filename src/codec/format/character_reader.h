// CharacterReader: the bytes of an output as characters, by the Unicode standard's table 3-7; a
// broken sequence is one U+FFFD per maximal subpart. Owned by its lexer.

#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "codec/format/character.h"

namespace sluice::codec {

class CharacterReader {
 public:
  // Appends the characters that this text of a token completes.
  void Take(std::string_view text, int32_t token, std::vector<Character>& out);
  // What is incomplete is broken: something other than text follows.
  void Break(std::vector<Character>& out);

  // Bytes of a character wait for more.
  bool is_inside() const { return partial_.n_bytes > 0; }
  // Of those bytes; kNoToken: there are none.
  int32_t first_token() const { return is_inside() ? partial_.first_token : kNoToken; }

 private:
  void TakeByte(uint8_t byte, int32_t token, std::vector<Character>& out);

  Character partial_{};
  int32_t n_wanted_ = 0;
  uint8_t next_low_ = 0;  // what its next byte must lie in
  uint8_t next_high_ = 0;
};

}  // namespace sluice::codec
