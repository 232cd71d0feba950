#include "codec/dialect/base64.h"

namespace sluice::codec {

bool IsStrictBase64(std::string_view text) {
  constexpr std::string_view kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string_view letters = text;
  while (letters.ends_with('=')) letters.remove_suffix(1);
  const size_t n_padding = text.size() - letters.size();
  if (text.size() % 4 != 0 || n_padding > 2) return false;
  if (letters.find_first_not_of(kAlphabet) != std::string_view::npos) return false;
  if (n_padding == 0) return true;
  const size_t unused = n_padding == 1 ? 0b11 : 0b1111;
  return (kAlphabet.find(letters.back()) & unused) == 0;
}

}  // namespace sluice::codec
