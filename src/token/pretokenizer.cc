#include "token/pretokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>

#include "token/untrusted_json_impl.h"

namespace sluice::token {
namespace {

// A step of a Sequence, as tokenizer.json has it.
struct Step {
  enum class Kind : uint8_t { kSplit, kDigits, kByteLevel, kByteLevelWithRegex };
  Kind kind;
  std::string_view pattern;  // kSplit
};
using enum Step::Kind;

constexpr Step kDeepseekSteps[] = {
    {kSplit, R"(\p{N}{1,3})"},
    {kSplit, "[一-龥\u3040-ゟ゠-ヿ]+"},
    {kSplit, R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^)"
             "\r\n"
             R"(\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[)"
             "\r\n"
             R"(]*|\s*[)"
             "\r\n"
             R"(]+|\s+(?!\S)|\s+)"},
    {kByteLevel, ""},
};
// ByteLevel with its own pattern, that of GPT-2.
constexpr Step kSmollmSteps[] = {{kDigits, ""}, {kByteLevelWithRegex, ""}};
constexpr Step kQwenSteps[] = {
    {kSplit,
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
     R"(|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {kByteLevel, ""},
};

struct Known {
  TextRules rules;
  std::string_view name;  // tokenizer.ggml.pre
  std::span<const Step> steps;
};
constexpr Known kKnown[] = {
    {TextRules::kDeepseekV3, "deepseek-v3", kDeepseekSteps},
    {TextRules::kSmollm, "smollm", kSmollmSteps},
    {TextRules::kQwen2, "qwen2", kQwenSteps},
};

Status Unknown(std::string_view what) {
  return Status(ErrorCode::kUnsupported,
                fmt::format("pre_tokenizer: {}; only the pre-tokenizers of DeepSeek-V3 and later, "
                            "SmolLM2 and Qwen2 are built in",
                            what));
}

// What is not as `step` says; empty: nothing. "Isolated": a match is a piece, and so is what lies
// between two matches.
std::string Difference(JsonValue part, const Step& step) {
  const bool is_byte_level =
      IsText(part.Find("type"), "ByteLevel") && IsFalse(part.Find("add_prefix_space"));
  switch (step.kind) {
    case kSplit: {
      const bool is_isolated = IsText(part.Find("type"), "Split") &&
                               IsText(part.Find("behavior"), "Isolated") &&
                               IsFalse(part.Find("invert"));
      if (!is_isolated) return "is no Split with the behavior Isolated";
      const JsonValue pattern = part.Find("pattern").Find("Regex");
      if (IsText(pattern, step.pattern)) return "";
      return fmt::format("has the pattern {}", Shown(pattern));
    }
    case kDigits: {
      const bool is_single = IsText(part.Find("type"), "Digits") &&
                             part.Find("individual_digits").is_bool() &&
                             part.Find("individual_digits").AsBool();
      return is_single ? "" : "is no Digits with individual_digits true";
    }
    case kByteLevel:
      if (is_byte_level && IsFalse(part.Find("use_regex"))) return "";
      return "is no ByteLevel with use_regex and add_prefix_space false";
    case kByteLevelWithRegex: {
      // Files from before the member was there have the pattern.
      const JsonValue uses = part.Find("use_regex");
      if (is_byte_level && (IsAbsent(uses) || (uses.is_bool() && uses.AsBool()))) return "";
      return "is no ByteLevel with use_regex true and add_prefix_space false";
    }
  }
  return "";
}

bool IsAsciiSymbol(uint8_t classes, size_t n_bytes) {
  return (classes & kSymbol) != 0 && n_bytes == 1;
}

bool IsAsciiLetter(unsigned char byte) {
  const unsigned char lower = byte | 0x20;
  return lower >= 'a' && lower <= 'z';
}

constexpr uint8_t kWord = kLetter | kMark;
constexpr uint8_t kNotOther = kLetter | kNumber | kSpace;

}  // namespace

Result<TextRules> FindTextRules(JsonValue pre_tokenizer) {
  if (!IsText(pre_tokenizer.Find("type"), "Sequence")) {
    return Unknown(fmt::format("its type is {}", Shown(pre_tokenizer.Find("type"))));
  }
  const JsonValue parts = pre_tokenizer.Find("pretokenizers");
  if (!parts.is_array()) return Unknown("its pretokenizers are no list");
  // Of the rules that come nearest, what differs.
  int32_t n_alike_max = -1;
  std::string difference;
  for (const Known& known : kKnown) {
    if (parts.size() != std::ssize(known.steps)) continue;
    std::string found;
    int32_t n_alike = 0;
    for (const JsonValue part : parts.elements()) {
      found = Difference(part, known.steps[static_cast<size_t>(n_alike)]);
      if (!found.empty()) break;
      ++n_alike;
    }
    if (found.empty()) return known.rules;
    if (n_alike <= n_alike_max) continue;
    n_alike_max = n_alike;
    difference = fmt::format("part {} {}", n_alike, found);
  }
  if (n_alike_max < 0) difference = fmt::format("its Sequence has {} parts", parts.size());
  return Unknown(difference);
}

Result<TextRules> TextRulesNamed(std::string_view pre) {
  std::string known;
  for (const Known& one : kKnown) {
    if (pre == one.name) return one.rules;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", one.name);
  }
  return Status(ErrorCode::kUnsupported,
                fmt::format("tokenizer.ggml.pre is {}; built in are {}", Quoted(pre), known));
}

std::string_view Pretokenizer::Next() {
  const size_t begin = at_;
  at_ = EndOfPiece(begin);
  return text_.substr(begin, at_ - begin);
}

size_t Pretokenizer::EndOfPiece(size_t begin) const {
  switch (rules_) {
    case TextRules::kDeepseekV3:
      break;
    case TextRules::kSmollm:
      return EndOfSmollmPiece(begin);
    case TextRules::kQwen2:
      return EndOfQwenPiece(begin);
  }
  return EndOfDeepseekPiece(begin);
}

size_t Pretokenizer::EndOfDeepseekPiece(size_t begin) const {
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
  if ((first.classes & kSpace) != 0) return EndOfSpaces(begin, kNumber | kCjk, true);
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

size_t Pretokenizer::EndOfSpaces(size_t begin, uint8_t cut_off, bool ends_at_newline) const {
  size_t end = begin, last = begin, behind_newline = begin;
  Character character = At(begin);
  while ((character.classes & kSpace) != 0) {
    last = end;
    end += character.n_bytes;
    if ((character.classes & kNewline) != 0) behind_newline = end;
    character = At(end);
  }
  if (ends_at_newline && behind_newline > begin) return behind_newline;
  // The last space is left to the text that follows it.
  const bool is_followed =
      character.n_bytes > 0 && (character.classes & cut_off) == 0 && last > begin;
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

size_t Pretokenizer::EndOfSmollmPiece(size_t begin) const {
  const Character first = At(begin);
  const size_t rest = begin + first.n_bytes;
  if ((first.classes & kNumber) != 0) return rest;
  const size_t contraction = EndOfContraction(begin, false);
  if (contraction > begin) return contraction;
  const bool is_blank = first.n_bytes == 1 && text_[begin] == ' ';
  const Character lead = is_blank ? At(rest) : first;
  if ((lead.classes & kLetter) != 0) return EndOfClass(rest, kLetter);
  if (lead.n_bytes > 0 && (lead.classes & kNotOther) == 0) return EndOfOthers(rest);
  return EndOfSpaces(begin, kNumber, false);
}

size_t Pretokenizer::EndOfQwenPiece(size_t begin) const {
  const Character first = At(begin);
  const size_t rest = begin + first.n_bytes;
  const size_t contraction = EndOfContraction(begin, true);
  if (contraction > begin) return contraction;
  const Character second = At(rest);
  const bool may_precede_letters = (first.classes & (kNewline | kNumber)) == 0;
  if ((first.classes & kLetter) != 0 || (may_precede_letters && (second.classes & kLetter) != 0)) {
    return EndOfClass(rest, kLetter);
  }
  if ((first.classes & kNumber) != 0) return rest;
  const bool is_blank = first.n_bytes == 1 && text_[begin] == ' ';
  const Character lead = is_blank ? second : first;
  if (lead.n_bytes > 0 && (lead.classes & kNotOther) == 0) {
    return EndOfClass(EndOfOthers(rest), kNewline);
  }
  return EndOfSpaces(begin, 0, true);
}

// 's 't 're 've 'm 'll 'd; `begin` if there is none. In any case a long s is an s, too.
size_t Pretokenizer::EndOfContraction(size_t begin, bool in_any_case) const {
  if (begin >= text_.size() || text_[begin] != '\'') return begin;
  constexpr std::string_view kTails[] = {"s", "t", "re", "ve", "m", "ll", "d"};
  const std::string_view behind = text_.substr(begin + 1);
  for (const std::string_view tail : kTails) {
    if (behind.size() < tail.size()) continue;
    const bool is_it = std::ranges::equal(behind.substr(0, tail.size()), tail, {}, [&](char c) {
      return in_any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
    });
    if (is_it) return begin + 1 + tail.size();
  }
  constexpr std::string_view kLongS = "\u017F";
  return in_any_case && behind.starts_with(kLongS) ? begin + 1 + kLongS.size() : begin;
}

size_t Pretokenizer::EndOfClass(size_t begin, uint8_t wanted) const {
  size_t end = begin;
  for (Character c = At(end); (c.classes & wanted) != 0; c = At(end)) end += c.n_bytes;
  return end;
}

size_t Pretokenizer::EndOfOthers(size_t begin) const {
  size_t end = begin;
  for (Character c = At(end); c.n_bytes > 0 && (c.classes & kNotOther) == 0; c = At(end)) {
    end += c.n_bytes;
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
