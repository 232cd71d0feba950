#include "token/whole_characters.h"

#include <algorithm>

#include "base/utf8.h"

namespace sluice::token {
namespace {

bool IsContinuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

size_t BoundaryOf(char before, char behind) {
  return static_cast<size_t>(static_cast<unsigned char>(before)) << 8 |
         static_cast<unsigned char>(behind);
}

// Whether a token is merged only by later merges than any that makes it.
bool MergesInOrder(const Vocabulary& vocabulary) {
  std::vector<int32_t> made_by(static_cast<size_t>(vocabulary.size()), -1);
  int32_t rank = 0;
  for (const Merge& merge : vocabulary.merges()) made_by[merge.result.value] = rank++;
  rank = 0;
  return std::ranges::all_of(vocabulary.merges(), [&](const Merge& merge) {
    const bool holds = made_by[merge.left.value] < rank && made_by[merge.right.value] < rank;
    ++rank;
    return holds;
  });
}

}  // namespace

WholeCharacters::WholeCharacters(const Vocabulary& vocabulary, std::span<const uint8_t> is_whole)
    : ids_(kNumPoints, -1) {
  if (!MergesInOrder(vocabulary)) return;
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    const std::string_view text = vocabulary.text(TokenId(id));
    const Utf8Character character = FirstCharacter(text);
    const bool is_character = character.n_bytes >= 2 && character.n_bytes == text.size();
    if (!is_character || character.point >= kNumPoints) continue;
    if (is_whole[static_cast<size_t>(id)] != 0) ids_[character.point] = id;
  }
  for (const Merge& merge : vocabulary.merges()) {
    const std::string_view text = vocabulary.text(merge.result);
    if (ValidUtf8Prefix(text) == text.size()) continue;
    for (size_t at = 1; at < text.size(); ++at) {
      if (!IsContinuation(text[at])) crossed_.set(BoundaryOf(text[at - 1], text[at]));
    }
  }
}

// Whether a character begins or the piece ends at `pos`, and no merge crosses there.
bool WholeCharacters::IsApart(std::string_view piece, size_t pos) const {
  if (pos == 0 || pos == piece.size()) return true;
  return !IsContinuation(piece[pos]) && !crossed_.test(BoundaryOf(piece[pos - 1], piece[pos]));
}

size_t WholeCharacters::Find(std::string_view piece, size_t pos, TokenId& id) const {
  const Utf8Character character = FirstCharacter(piece.substr(pos));
  if (character.n_bytes == 0 || character.point >= kNumPoints) return 0;
  if (ids_[character.point] < 0) return 0;
  if (!IsApart(piece, pos) || !IsApart(piece, pos + character.n_bytes)) return 0;
  id = TokenId(ids_[character.point]);
  return character.n_bytes;
}

}  // namespace sluice::token
