// UTF-8 as it is cut and broken in practice. Pure functions; "valid" is the Unicode standard's
// table 3-7: no overlong forms, no surrogates, nothing above U+10FFFF.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sluice {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

// Bytes [0, 3] at the end that begin a character and so far are valid: more may come.
int32_t IncompleteTail(std::string_view text);

// Bytes of the longest valid prefix.
size_t ValidUtf8Prefix(std::string_view text);

// The first character of `text`. n_bytes 0: it is empty or begins with no valid one.
struct Utf8Character {
  uint32_t point = 0;
  uint8_t n_bytes = 0;
};
Utf8Character FirstCharacter(std::string_view text);

// Appends `bytes` with U+FFFD for each maximal subpart of an ill-formed sequence, as browsers and
// Python do.
void AppendValidUtf8(std::string& out, std::string_view bytes);

}  // namespace sluice
