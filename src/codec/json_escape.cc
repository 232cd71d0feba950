#include "codec/json_escape.h"

#include <cstdint>

namespace sluice::codec {

bool HasLoneSurrogate(std::string_view json) {
  auto unit = [&](size_t at) -> int32_t {
    if (at + 6 > json.size() || json[at] != '\\' || json[at + 1] != 'u') return -1;
    int32_t value = 0;
    for (size_t i = at + 2; i < at + 6; ++i) {
      const char c = json[i];
      const bool is_digit = c >= '0' && c <= '9';
      value = value * 16 + (is_digit ? c - '0' : (c | 32) - 'a' + 10);
    }
    return value;
  };
  for (size_t at = json.find('\\'); at != std::string_view::npos; at = json.find('\\', at)) {
    const int32_t value = unit(at);
    if (value < 0xD800 || value > 0xDFFF) {
      at += 2;
      continue;
    }
    const int32_t second = unit(at + 6);
    if (value > 0xDBFF || second < 0xDC00 || second > 0xDFFF) return true;
    at += 12;
  }
  return false;
}

}  // namespace sluice::codec
