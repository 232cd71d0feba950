#include "base/utf8.h"

#include <algorithm>

#include "base/utf8_impl.h"

namespace sluice {
namespace {

const unsigned char* Bytes(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

}  // namespace

int32_t IncompleteTail(std::string_view text) {
  const unsigned char* end = Bytes(text) + text.size();
  for (size_t n = 1; n <= std::min<size_t>(3, text.size()); ++n) {
    bool is_continuation = (end[-static_cast<ptrdiff_t>(n)] & 0xC0) == 0x80;
    if (!is_continuation) return StepUtf8(end - n, n).cut ? static_cast<int32_t>(n) : 0;
  }
  return 0;
}

size_t ValidUtf8Prefix(std::string_view text) {
  size_t pos = 0;
  while (pos < text.size()) {
    if (static_cast<unsigned char>(text[pos]) < 0x80) {
      ++pos;
      continue;
    }
    size_t n_wide = WidePrefix(Bytes(text) + pos, text.size() - pos);
    if (n_wide == 0) break;
    pos += n_wide;
  }
  return pos;
}

Utf8Character FirstCharacter(std::string_view text) {
  const auto* p = reinterpret_cast<const unsigned char*>(text.data());
  if (text.empty()) return {};
  const Utf8Step step = StepUtf8(p, text.size());
  if (!step.valid) return {};
  if (step.n_bytes == 1) return {.point = p[0], .n_bytes = 1};
  uint32_t point = p[0] & (0x7Fu >> step.n_bytes);
  for (uint8_t i = 1; i < step.n_bytes; ++i) point = point << 6 | (p[i] & 0x3Fu);
  return {.point = point, .n_bytes = step.n_bytes};
}

void AppendValidUtf8(std::string& out, std::string_view bytes) {
  while (true) {
    size_t n_valid = ValidUtf8Prefix(bytes);
    out.append(bytes.substr(0, n_valid));
    bytes.remove_prefix(n_valid);
    if (bytes.empty()) return;
    out.append(kReplacementCharacter);
    bytes.remove_prefix(StepUtf8(Bytes(bytes), bytes.size()).n_bytes);
  }
}

}  // namespace sluice
