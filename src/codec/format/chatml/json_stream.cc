#include "codec/format/chatml/json_stream.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/json_writer.h"
#include "base/limits.h"

namespace sluice::codec::chatml {
namespace {

bool IsHex(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

bool IsWord(std::string_view c) {
  if (c.size() != 1) return false;
  const char b = c[0];
  return (b >= '0' && b <= '9') || (b >= 'a' && b <= 'z') || b == '-' || b == '+' || b == '.' ||
         b == 'E';
}

size_t TakeDigits(std::string_view& rest) {
  const size_t n = std::min(rest.find_first_not_of("0123456789"), rest.size());
  rest.remove_prefix(n);
  return n;
}

// By the grammar of RFC 8259, whatever the value: a client may read numbers that no double holds.
bool IsNumber(std::string_view rest) {
  if (rest.starts_with('-')) rest.remove_prefix(1);
  if (rest.starts_with('0')) {
    rest.remove_prefix(1);
  } else if (TakeDigits(rest) == 0) {
    return false;
  }
  if (rest.starts_with('.')) {
    rest.remove_prefix(1);
    if (TakeDigits(rest) == 0) return false;
  }
  if (rest.starts_with('e') || rest.starts_with('E')) {
    rest.remove_prefix(1);
    if (rest.starts_with('+') || rest.starts_with('-')) rest.remove_prefix(1);
    if (TakeDigits(rest) == 0) return false;
  }
  return rest.empty();
}

bool IsScalar(std::string_view word) {
  return word == "true" || word == "false" || word == "null" || IsNumber(word);
}

}  // namespace

bool IsSpace(std::string_view c) { return c == " " || c == "\n" || c == "\t" || c == "\r"; }

JsonStream::State JsonStream::Take(std::string_view character, std::string& out, bool& is_taken) {
  is_taken = true;
  if (in_string_) return TakeInString(character, out);
  if (!word_.empty()) return TakeInWord(character, out, is_taken);
  return TakeOutside(character, out, is_taken);
}

JsonStream::State JsonStream::TakeOutside(std::string_view c, std::string& out, bool& is_taken) {
  if (IsSpace(c)) return State::kInside;
  const bool may_begin_value =
      expects_ == Expects::kValue || (expects_ == Expects::kFirstOrEnd && !open_.back());
  const bool may_begin_key =
      expects_ == Expects::kKey || (expects_ == Expects::kFirstOrEnd && open_.back());
  if (c == "}" || c == "]") return Close(c == "}", out);
  if (c == "," && expects_ == Expects::kCommaOrEnd) {
    has_comma_ = true;
    expects_ = open_.back() ? Expects::kKey : Expects::kValue;
    return State::kInside;
  }
  if (c == ":" && expects_ == Expects::kColon) {
    out += ": ";
    expects_ = Expects::kValue;
    return State::kInside;
  }
  if (c == "\"" && (may_begin_value || may_begin_key)) {
    WriteComma(out);
    out += '"';
    in_string_ = true;
    is_key_ = may_begin_key;
    return State::kInside;
  }
  if (!may_begin_value) return State::kBad;
  if (c == "{" || c == "[") return Open(c == "{", out);
  if (!IsWord(c)) return State::kBad;
  WriteComma(out);
  return TakeInWord(c, out, is_taken);
}

JsonStream::State JsonStream::TakeInString(std::string_view c, std::string& out) {
  if (!escape_.empty()) return TakeInEscape(c, out);
  if (c == "\\") {
    escape_ = c;
    return State::kInside;
  }
  ReplaceHalf(out);
  if (c == "\"") {
    out += '"';
    in_string_ = false;
    if (!is_key_) return EndValue();
    expects_ = Expects::kColon;
    return State::kInside;
  }
  if (c.size() == 1 && static_cast<unsigned char>(c[0]) < 0x20) is_repaired_ = true;
  AppendJsonEscaped(out, c);
  return State::kInside;
}

JsonStream::State JsonStream::TakeInEscape(std::string_view c, std::string& out) {
  escape_ += c;
  const bool is_unicode = escape_.size() > 1 && escape_[1] == 'u';
  const bool is_hex = escape_.size() == 2 || (c.size() == 1 && IsHex(c[0]));
  if (is_unicode && is_hex && escape_.size() < kUnicodeEscapeBytes) return State::kInside;
  if (is_unicode && is_hex && escape_.size() == kUnicodeEscapeBytes) {
    EndUnicodeEscape(out);
    return State::kInside;
  }
  ReplaceHalf(out);
  constexpr std::string_view kEscapes = "\"\\/bfnrt";
  if (!is_unicode && c.size() == 1 && kEscapes.find(c) != std::string_view::npos) {
    out += std::exchange(escape_, {});
    return State::kInside;
  }
  // The backslash was meant as one; what follows it is text, and may end the string.
  is_repaired_ = true;
  const std::string behind = escape_.substr(1, escape_.size() - 1 - c.size());
  escape_.clear();
  out += "\\\\";
  out += behind;
  return TakeInString(c, out);
}

// The first half of a surrogate pair waits for the second one.
void JsonStream::EndUnicodeEscape(std::string& out) {
  uint32_t unit = 0;
  std::from_chars(escape_.data() + 2, escape_.data() + escape_.size(), unit, 16);
  const bool is_first = unit >= 0xD800 && unit < 0xDC00;
  const bool is_second = unit >= 0xDC00 && unit < 0xE000;
  if (!is_second) ReplaceHalf(out);
  half_ += std::exchange(escape_, {});
  if (is_first) return;
  if (is_second && half_.size() == kUnicodeEscapeBytes) return ReplaceHalf(out);
  out += std::exchange(half_, {});
}

void JsonStream::ReplaceHalf(std::string& out) {
  if (half_.empty()) return;
  half_.clear();
  out += "\\ufffd";
  is_repaired_ = true;
}

// Nobody knows a number before its end.
JsonStream::State JsonStream::TakeInWord(std::string_view c, std::string& out, bool& is_taken) {
  if (IsWord(c)) {
    word_ += c;
    return word_.size() <= kMaxWordBytes ? State::kInside : State::kBad;
  }
  if (!IsScalar(word_)) return State::kBad;
  out += word_;
  word_.clear();
  if (EndValue() == State::kDone) {
    is_taken = false;
    return State::kDone;
  }
  return TakeOutside(c, out, is_taken);
}

JsonStream::State JsonStream::Open(bool is_object, std::string& out) {
  // The call that holds it is an object of its own.
  if (std::ssize(open_) >= limits::kMaxJsonDepth - 1) return State::kBad;
  WriteComma(out);
  out += is_object ? '{' : '[';
  open_.push_back(is_object);
  expects_ = Expects::kFirstOrEnd;
  return State::kInside;
}

JsonStream::State JsonStream::Close(bool is_object, std::string& out) {
  const bool may_end =
      expects_ == Expects::kCommaOrEnd || expects_ == Expects::kFirstOrEnd || has_comma_;
  if (open_.empty() || open_.back() != is_object || !may_end) return State::kBad;
  if (has_comma_) is_repaired_ = true;
  has_comma_ = false;
  out += is_object ? '}' : ']';
  open_.pop_back();
  return EndValue();
}

JsonStream::State JsonStream::EndValue() {
  expects_ = Expects::kCommaOrEnd;
  return open_.empty() ? State::kDone : State::kInside;
}

void JsonStream::WriteComma(std::string& out) {
  if (has_comma_) out += ", ";
  has_comma_ = false;
}

}  // namespace sluice::codec::chatml
