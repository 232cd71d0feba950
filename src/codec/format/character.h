// Character: one UTF-8 character of an output, and which tokens made it. Plain data.

#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

namespace sluice::codec {

// Behind every token of an output.
inline constexpr int32_t kNoToken = std::numeric_limits<int32_t>::max();

struct Character {
  std::array<char, 4> bytes;
  uint8_t n_bytes;
  int32_t first_token;  // indices in the output
  int32_t last_token;

  bool is(char c) const { return n_bytes == 1 && bytes[0] == c; }
  bool is_space() const { return is(' ') || is('\n') || is('\t') || is('\r'); }  // as in JSON
  std::string_view text() const { return {bytes.data(), n_bytes}; }
};

// Of characters in their order; kNoToken: there are none.
inline int32_t FirstTokenOf(const std::vector<Character>& characters) {
  return characters.empty() ? kNoToken : characters.front().first_token;
}

}  // namespace sluice::codec
