#include "codec/json_escape.h"

#include <cstdint>

namespace sluice::codec {
namespace {

constexpr size_t kEscapeBytes = 6;  // of \uXXXX

// Where the first one behind `from` begins, npos: there is none. `from` is within no escape.
size_t FindLoneSurrogate(std::string_view json, size_t from) {
  auto unit = [&](size_t at) -> int32_t {
    if (at + kEscapeBytes > json.size() || json[at] != '\\' || json[at + 1] != 'u') return -1;
    int32_t value = 0;
    for (size_t i = at + 2; i < at + kEscapeBytes; ++i) {
      const char c = json[i];
      const bool is_digit = c >= '0' && c <= '9';
      value = value * 16 + (is_digit ? c - '0' : (c | 32) - 'a' + 10);
    }
    return value;
  };
  for (size_t at = json.find('\\', from); at != std::string_view::npos; at = json.find('\\', at)) {
    const int32_t value = unit(at);
    if (value < 0xD800 || value > 0xDFFF) {
      at += 2;
      continue;
    }
    const int32_t second = unit(at + kEscapeBytes);
    if (value > 0xDBFF || second < 0xDC00 || second > 0xDFFF) return at;
    at += 2 * kEscapeBytes;
  }
  return std::string_view::npos;
}

}  // namespace

bool HasLoneSurrogate(std::string_view json) {
  return FindLoneSurrogate(json, 0) != std::string_view::npos;
}

std::string ReplaceLoneSurrogates(std::string_view json) {
  std::string replaced(json);
  for (size_t at = FindLoneSurrogate(replaced, 0); at != std::string::npos;
       at = FindLoneSurrogate(replaced, at + kEscapeBytes)) {
    replaced.replace(at, kEscapeBytes, "\\ufffd");
  }
  return replaced;
}

}  // namespace sluice::codec
