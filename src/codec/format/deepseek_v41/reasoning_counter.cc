#include "codec/format/deepseek_v41/reasoning_counter.h"

#include <algorithm>

#include "base/utf8.h"
#include "token/character_class.h"

namespace sluice::codec::deepseek_v41 {
namespace {

bool IsAsciiLetter(char c) { return (c | 32) >= 'a' && (c | 32) <= 'z'; }
bool IsWordEnd(char c) { return IsAsciiLetter(c) || (c >= '0' && c <= '9'); }

// Whether a piece always ends before `at`, whatever stands around (token/pretokenizer.h): between a
// word and a space with a word behind it, and between a line feed and a word. No added token has a
// space or a line feed in its spelling.
bool EndsPiece(std::string_view text, size_t at) {
  if (text[at - 1] == '\n') return IsAsciiLetter(text[at]);
  return text[at] == ' ' && at + 1 < text.size() && IsAsciiLetter(text[at + 1]) &&
         IsWordEnd(text[at - 1]);
}

bool IsCjk(std::string_view three_bytes) {
  if ((three_bytes[0] & 0xF0) != 0xE0) return false;
  const uint32_t point = (static_cast<uint32_t>(three_bytes[0]) & 0x0F) << 12 |
                         (static_cast<uint32_t>(three_bytes[1]) & 0x3F) << 6 |
                         (static_cast<uint32_t>(three_bytes[2]) & 0x3F);
  return (token::CharacterClasses()[point] & token::kCjk) != 0;
}

// Between a Chinese or Japanese character and a full stop or comma, which are none.
bool EndsCjkPiece(std::string_view text, size_t at) {
  constexpr std::string_view kMarks[] = {"。", "，", "、", "！", "？", "：", "；"};
  if (at < 3 || at + 3 > text.size() || !IsCjk(text.substr(at - 3, 3))) return false;
  return std::ranges::find(kMarks, text.substr(at, 3)) != std::end(kMarks);
}

// The last place where a piece always ends; 0: there is none.
size_t LastSafeCut(std::string_view text) {
  for (size_t at = text.size(); --at > 0;) {
    if (EndsPiece(text, at) || EndsCjkPiece(text, at)) return at;
  }
  return 0;
}

}  // namespace

void ReasoningCounter::EncodeSafePart() {
  size_t cut = LastSafeCut(pending_);
  if (cut == 0 && pending_.size() >= kMaxPending) cut = pending_.size();
  if (cut > 0) EncodePrefix(cut);
  // Doubling keeps the search for a cut linear in all.
  next_try_ = std::max(kTryBytes, 2 * pending_.size());
}

void ReasoningCounter::EncodePrefix(size_t n_bytes) {
  ids_.clear();
  bpe_.EncodeWithAdded(std::string_view(pending_).substr(0, n_bytes), ids_);
  n_counted_ += static_cast<int32_t>(ids_.size());
  pending_.erase(0, n_bytes);
}

int32_t ReasoningCounter::Count() {
  ids_.clear();
  bpe_.EncodeWithAdded(pending_, ids_);
  return n_counted_ + static_cast<int32_t>(ids_.size());
}

}  // namespace sluice::codec::deepseek_v41
