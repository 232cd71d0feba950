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

// The code point of a character of two or three bytes; 0 if `text` begins with no such one.
uint32_t PointOf(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 0xC2 || lead >= 0xF0) return 0;
  const size_t n_bytes = lead < 0xE0 ? 2 : 3;
  if (text.size() < n_bytes) return 0;
  uint32_t point = lead & (n_bytes == 2 ? 0x1F : 0x0F);
  for (size_t i = 1; i < n_bytes; ++i) {
    if (!IsContinuation(text[i])) return 0;
    point = point << 6 | (static_cast<unsigned char>(text[i]) & 0x3F);
  }
  return n_bytes == 3 && point < 0x800 ? 0 : point;
}

}  // namespace

WholeCharacters::WholeCharacters(const Vocabulary& vocabulary, std::span<const uint8_t> is_whole)
    : ids_(kNumPoints, -1) {
  if (!MergesInOrder(vocabulary)) return;
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    const std::string_view text = vocabulary.text(TokenId(id));
    if (text.size() < 2 || text.size() > 3 || is_whole[static_cast<size_t>(id)] == 0) continue;
    const uint32_t point = PointOf(text);
    if (point != 0 && text.size() == (point < 0x800 ? 2 : 3)) ids_[point] = id;
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
  const uint32_t point = PointOf(piece.substr(pos));
  if (point == 0 || ids_[point] < 0) return 0;
  const size_t n_bytes = point < 0x800 ? 2 : 3;
  if (!IsApart(piece, pos) || !IsApart(piece, pos + n_bytes)) return 0;
  id = TokenId(ids_[point]);
  return n_bytes;
}

}  // namespace sluice::token
