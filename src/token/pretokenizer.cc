#include "token/pretokenizer.h"

#include <fmt/format.h>

#include <string>

#include "token/untrusted_json_impl.h"

namespace sluice::token {
namespace {

// As tokenizer.json has them, between the quotes of its JSON.
constexpr std::string_view kPatterns[] = {R"(\p{N}{1,3})", "[一-龥\u3040-ゟ゠-ヿ]+",
                                          R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^)"
                                          "\r\n"
                                          R"(\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[)"
                                          "\r\n"
                                          R"(]*|\s*[)"
                                          "\r\n"
                                          R"(]+|\s+(?!\S)|\s+)"};
constexpr int32_t kNumSplits = static_cast<int32_t>(std::size(kPatterns));

constexpr std::string_view kKnown =
    "only the pre-tokenizer of DeepSeek-V3 and later is built in: a Sequence of three Split and a "
    "ByteLevel";

Status Unknown(std::string_view what) {
  return Status(ErrorCode::kUnsupported, fmt::format("pre_tokenizer: {}; {}", what, kKnown));
}

// "Isolated": a match is a piece, and so is what lies between two matches.
Status CheckSplit(JsonValue split, int32_t index) {
  const bool is_isolated = IsText(split.Find("type"), "Split") &&
                           IsText(split.Find("behavior"), "Isolated") &&
                           IsFalse(split.Find("invert"));
  if (!is_isolated) {
    return Unknown(fmt::format("part {} is no Split with the behavior Isolated", index));
  }
  const JsonValue pattern = split.Find("pattern").Find("Regex");
  if (IsText(pattern, kPatterns[index])) return Status::Ok();
  return Unknown(fmt::format("part {} has the pattern {}", index, Shown(pattern)));
}

bool IsAsciiSymbol(uint8_t classes, size_t n_bytes) {
  return (classes & kSymbol) != 0 && n_bytes == 1;
}

bool IsAsciiLetter(unsigned char byte) {
  const unsigned char lower = byte | 0x20;
  return lower >= 'a' && lower <= 'z';
}

constexpr uint8_t kWord = kLetter | kMark;

}  // namespace

Status CheckPretokenizer(JsonValue pre_tokenizer) {
  if (!IsText(pre_tokenizer.Find("type"), "Sequence")) {
    return Unknown(fmt::format("its type is {}", Shown(pre_tokenizer.Find("type"))));
  }
  const JsonValue parts = pre_tokenizer.Find("pretokenizers");
  if (parts.size() != kNumSplits + 1) {
    return Unknown(fmt::format("its Sequence has {} parts", parts.size()));
  }
  int32_t index = 0;
  for (const JsonValue part : parts.elements()) {
    if (index < kNumSplits) {
      SLUICE_TRY(CheckSplit(part, index));
    } else if (!IsText(part.Find("type"), "ByteLevel") || !IsFalse(part.Find("use_regex")) ||
               !IsFalse(part.Find("add_prefix_space"))) {
      return Unknown(
          fmt::format("part {} is no ByteLevel with use_regex and add_prefix_space false", index));
    }
    ++index;
  }
  return index == kNumSplits + 1 ? Status::Ok() : Unknown("its pretokenizers are no list");
}

std::string_view Pretokenizer::Next() {
  const size_t begin = at_;
  at_ = EndOfPiece(begin);
  return text_.substr(begin, at_ - begin);
}

size_t Pretokenizer::EndOfPiece(size_t begin) const {
  const Character first = At(begin);
  if ((first.classes & kNumber) != 0) return EndOfNumbers(begin);
  // What a match of the third split may go on with: characters of the same segment.
  const uint8_t segment = first.classes & kCjk;
  const size_t rest = begin + first.n_bytes;
  const Character second = At(rest);
  const bool is_same_segment = (second.classes & kCjk) == segment;
  const bool is_second_word = (second.classes & kWord) != 0 && is_same_segment;

  if (IsAsciiSymbol(first.classes, first.n_bytes)) {
    const size_t end = EndOfAsciiLetters(rest);
    if (end > rest) return end;
  }
  const bool is_word = (first.classes & kWord) != 0;
  const bool may_precede_word = (first.classes & (kSymbol | kNewline)) == 0;
  if (is_word || (may_precede_word && is_second_word)) return EndOfRun(rest, kWord, segment);
  const bool is_blank = first.n_bytes == 1 && text_[begin] == ' ';
  const bool is_second_symbol = (second.classes & kSymbol) != 0 && is_same_segment;
  if ((first.classes & kSymbol) != 0 || (is_blank && is_second_symbol)) {
    return EndOfRun(EndOfRun(rest, kSymbol, segment), kNewline, segment);
  }
  if ((first.classes & kSpace) != 0) return EndOfSpaces(begin);
  return EndOfUnmatched(rest, segment);
}

size_t Pretokenizer::EndOfRun(size_t pos, uint8_t classes, uint8_t segment) const {
  Character character = At(pos);
  while ((character.classes & classes) != 0 && (character.classes & kCjk) == segment) {
    pos += character.n_bytes;
    character = At(pos);
  }
  return pos;
}

size_t Pretokenizer::EndOfNumbers(size_t begin) const {
  size_t end = begin;
  for (int n = 0; n < 3; ++n) {
    const Character character = At(end);
    if ((character.classes & kNumber) == 0) break;
    end += character.n_bytes;
  }
  return end;
}

size_t Pretokenizer::EndOfAsciiLetters(size_t begin) const {
  size_t end = begin;
  while (end < text_.size() && IsAsciiLetter(static_cast<unsigned char>(text_[end]))) ++end;
  return end;
}

size_t Pretokenizer::EndOfSpaces(size_t begin) const {
  size_t end = begin, last = begin, behind_newline = begin;
  Character character = At(begin);
  while ((character.classes & kSpace) != 0) {
    last = end;
    end += character.n_bytes;
    if ((character.classes & kNewline) != 0) behind_newline = end;
    character = At(end);
  }
  if (behind_newline > begin) return behind_newline;
  // The last space is left to the text that follows it. Numbers and other segments do not count:
  // the splits before have cut them off.
  const bool is_followed =
      character.n_bytes > 0 && (character.classes & (kNumber | kCjk)) == 0 && last > begin;
  return is_followed ? last : end;
}

// Characters of no class, unless they precede a word.
size_t Pretokenizer::EndOfUnmatched(size_t begin, uint8_t segment) const {
  size_t end = begin;
  Character character = At(end);
  while (character.n_bytes > 0 && character.classes == segment) {
    const Character next = At(end + character.n_bytes);
    if ((next.classes & kWord) != 0 && (next.classes & kCjk) == segment) break;
    end += character.n_bytes;
    character = next;
  }
  return end;
}

Pretokenizer::Character Pretokenizer::At(size_t pos) const {
  if (pos >= text_.size()) return {};
  const auto byte = static_cast<unsigned char>(text_[pos]);
  if (byte < 0x80) return {.classes = classes_[byte], .n_bytes = 1};
  return WideAt(pos);
}

Pretokenizer::Character Pretokenizer::WideAt(size_t pos) const {
  constexpr Character kStray = {.classes = 0, .n_bytes = 1};
  const auto lead = static_cast<unsigned char>(text_[pos]);
  const size_t n_bytes = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (lead < 0xC2 || lead > 0xF4 || pos + n_bytes > text_.size()) return kStray;
  uint32_t point = lead & (0x7Fu >> n_bytes);
  for (size_t i = 1; i < n_bytes; ++i) {
    const auto byte = static_cast<unsigned char>(text_[pos + i]);
    if ((byte & 0xC0) != 0x80) return kStray;
    point = point << 6 | (byte & 0x3F);
  }
  constexpr uint32_t kFirstOfLength[] = {0, 0, 0x80, 0x800, 0x10000};
  if (point < kFirstOfLength[n_bytes] || point > kMaxCodePoint) return kStray;
  return {.classes = classes_[point], .n_bytes = static_cast<uint8_t>(n_bytes)};
}

}  // namespace sluice::token
