#include "codec/format/deepseek_v41/tag_reader.h"

#include <utility>

namespace sluice::codec::deepseek_v41 {
namespace {

bool IsSpace(std::string_view c) { return c == " " || c == "\n" || c == "\t" || c == "\r"; }

bool IsAttributeByte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-';
}

}  // namespace

void TagReader::Restart() { *this = TagReader(); }

bool TagReader::Take(std::string_view c) {
  switch (state_) {
    case State::kOutside:
      if (c == ">") return true;
      if (IsSpace(c) || c == "/") return false;
      attribute_ = c;
      state_ = State::kAttribute;
      return false;
    case State::kAttribute:
      if (c == ">") return true;
      if (c == "=") {
        state_ = State::kEquals;
      } else if (IsSpace(c)) {
        state_ = State::kOutside;
      } else if (attribute_.size() < kMaxAttributeBytes) {
        attribute_ += c;
      }
      return false;
    case State::kEquals:
      if (c == ">") return true;
      if (IsSpace(c)) return false;
      BeginValue();
      state_ = State::kBare;
      if (c != "\"" && c != "'") return Append(c), false;
      quote_ = c[0];
      state_ = State::kQuoted;
      return false;
    case State::kQuoted:
      if (c.size() == 1 && c[0] == quote_) {
        ahead_.clear();
        state_ = State::kQuoteSeen;
      } else {
        Append(c);
      }
      return false;
    case State::kQuoteSeen:
      return TakeBehindQuote(c);
    case State::kBare:
      if (c == ">" || IsSpace(c))
        EndValue(State::kOutside);
      else
        Append(c);
      return c == ">";
  }
  return false;
}

bool TagReader::TakeBehindQuote(std::string_view c) {
  ahead_ += c;
  switch (LookAhead()) {
    case Ahead::kUndecided:
      return false;
    case Ahead::kTagEnd:
      EndValue(State::kOutside);
      return true;
    case Ahead::kAttribute:
      EndValue(State::kEquals);
      attribute_ = ahead_.substr(ahead_.find_first_not_of(" \n\t\r"));
      attribute_.pop_back();
      return false;
    case Ahead::kNoEnd:
      break;
  }
  // The quote was part of the value, and so is what came behind it; the last character may be the
  // next such quote.
  Append(std::string_view(&quote_, 1));
  Append(std::string_view(ahead_).substr(0, ahead_.size() - c.size()));
  state_ = State::kQuoted;
  return Take(c);
}

// Behind a quote that ends a value comes the end of the tag, or a space and the next attribute.
TagReader::Ahead TagReader::LookAhead() const {
  const size_t first = ahead_.find_first_not_of(" \n\t\r");
  if (first == std::string::npos) {
    return ahead_.size() < kMaxAttributeBytes ? Ahead::kUndecided : Ahead::kNoEnd;
  }
  const std::string_view rest = std::string_view(ahead_).substr(first);
  if (rest == ">" || rest == "/>") return Ahead::kTagEnd;
  if (rest == "/") return Ahead::kUndecided;
  if (first == 0 || rest.size() > kMaxAttributeBytes) return Ahead::kNoEnd;
  size_t n = 0;
  while (n < rest.size() && IsAttributeByte(rest[n])) ++n;
  if (n == rest.size()) return Ahead::kUndecided;
  return n > 0 && rest[n] == '=' ? Ahead::kAttribute : Ahead::kNoEnd;
}

void TagReader::Cut() {
  if (state_ == State::kQuoteSeen || state_ == State::kBare) EndValue(State::kOutside);
}

void TagReader::BeginValue() {
  open_ = attribute_ == "name" ? &name_ : attribute_ == "string" ? &string_ : nullptr;
  if (open_ != nullptr && open_->is_there) open_ = nullptr;  // the first one counts
  if (open_ != nullptr) open_->is_there = true;
}

void TagReader::EndValue(State next) {
  if (open_ != nullptr) open_->is_closed = true;
  open_ = nullptr;
  state_ = next;
}

void TagReader::Append(std::string_view text) {
  if (open_ != nullptr && open_->value.size() + text.size() <= kMaxValueBytes) open_->value += text;
}

}  // namespace sluice::codec::deepseek_v41
