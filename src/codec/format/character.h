// Character: one UTF-8 character of an output, and which tokens made it. Plain data.

#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace sluice::codec {

struct Character {
  std::array<char, 4> bytes;
  uint8_t n_bytes;
  int32_t first_token;  // indices in the output
  int32_t last_token;

  bool is(char c) const { return n_bytes == 1 && bytes[0] == c; }
  std::string_view text() const { return {bytes.data(), n_bytes}; }
};

}  // namespace sluice::codec
