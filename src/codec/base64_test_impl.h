// Bodies of golden cases that are not text. Pure function.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sluice::codec {

inline std::string FromBase64(std::string_view text) {
  constexpr std::string_view kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  uint32_t bits = 0;
  int n_bits = 0;
  for (const char c : text.substr(0, text.find('='))) {
    bits = bits << 6 | static_cast<uint32_t>(kAlphabet.find(c));
    n_bits += 6;
    if (n_bits >= 8) out += static_cast<char>(bits >> (n_bits -= 8));
  }
  return out;
}

}  // namespace sluice::codec
