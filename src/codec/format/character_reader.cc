#include "codec/format/character_reader.h"

#include "base/utf8.h"

namespace sluice::codec {
namespace {

Character ReplacementOf(int32_t first_token, int32_t last_token) {
  Character c{.bytes = {}, .n_bytes = 3, .first_token = first_token, .last_token = last_token};
  kReplacementCharacter.copy(c.bytes.data(), 3);
  return c;
}

}  // namespace

void CharacterReader::Take(std::string_view text, int32_t token, std::vector<Character>& out) {
  for (const char byte : text) TakeByte(static_cast<uint8_t>(byte), token, out);
}

// It completes no character, one, or a broken one and one.
void CharacterReader::TakeByte(uint8_t byte, int32_t token, std::vector<Character>& out) {
  if (partial_.n_bytes > 0) {
    if (byte >= next_low_ && byte <= next_high_) {
      partial_.bytes[partial_.n_bytes++] = static_cast<char>(byte);
      partial_.last_token = token;
      next_low_ = 0x80;
      next_high_ = 0xBF;
      if (partial_.n_bytes < n_wanted_) return;
      out.push_back(partial_);
      partial_.n_bytes = 0;
      return;
    }
    Break(out);
  }
  if (byte < 0x80) {
    out.push_back({.bytes = {static_cast<char>(byte)},
                   .n_bytes = 1,
                   .first_token = token,
                   .last_token = token});
    return;
  }
  if (byte < 0xC2 || byte > 0xF4) return out.push_back(ReplacementOf(token, token));
  partial_ = {
      .bytes = {static_cast<char>(byte)}, .n_bytes = 1, .first_token = token, .last_token = token};
  n_wanted_ = byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
  next_low_ = byte == 0xE0 ? 0xA0 : byte == 0xF0 ? 0x90 : 0x80;
  next_high_ = byte == 0xED ? 0x9F : byte == 0xF4 ? 0x8F : 0xBF;
}

void CharacterReader::Break(std::vector<Character>& out) {
  if (partial_.n_bytes == 0) return;
  out.push_back(ReplacementOf(partial_.first_token, partial_.last_token));
  partial_.n_bytes = 0;
}

}  // namespace sluice::codec
