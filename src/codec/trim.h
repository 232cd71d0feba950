// Text without the white space around it. Pure.

#pragma once

#include <string_view>

namespace sluice::codec {

// Of ASCII, as Python's and JavaScript's own functions take it.
inline constexpr std::string_view kAsciiSpace = " \t\r\n\f\v";

inline std::string_view Trim(std::string_view text, std::string_view space = kAsciiSpace) {
  const size_t first = text.find_first_not_of(space);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(space) - first + 1);
}

}  // namespace sluice::codec
