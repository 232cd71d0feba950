#include "codec/dialect/responses/free_text.h"

#include <cstdint>

namespace sluice::codec::responses {
namespace {

constexpr std::string_view kHeadText = R"({"input":")";

bool IsSpace(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

// White space may stand between the head's tokens, not inside its key.
bool MaySkipBefore(size_t n_matched) { return n_matched < 2 || n_matched >= kHeadText.size() - 2; }

// `code`: not a surrogate.
void AppendUtf8(std::string& out, uint32_t code) {
  auto rest = [&out, code](int shift) { out += static_cast<char>(0x80 | (code >> shift & 0x3F)); };
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xC0 | code >> 6);
    rest(0);
  } else if (code < 0x10000) {
    out += static_cast<char>(0xE0 | code >> 12);
    rest(6);
    rest(0);
  } else {
    out += static_cast<char>(0xF0 | code >> 18);
    rest(12);
    rest(6);
    rest(0);
  }
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = static_cast<char>(c | 32);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

}  // namespace

void FreeText::Push(std::string_view piece, std::string& out) {
  for (char c : piece) {
    switch (state_) {
      case State::kHead:
        PushHead(c, out);
        break;
      case State::kText:
        if (c == '\\') {
          state_ = State::kEscape;
          break;
        }
        EndSurrogate(out);
        if (c == '"') {
          state_ = State::kDone;
        } else {
          out += c;
        }
        break;
      case State::kEscape:
        PushEscape(c, out);
        break;
      case State::kUnicode:
        PushUnicode(c, out);
        break;
      case State::kRaw:
        out += c;
        break;
      case State::kDone:
        break;
    }
  }
}

void FreeText::PushHead(char c, std::string& out) {
  head_ += c;
  if (IsSpace(c) && MaySkipBefore(n_matched_)) return;
  if (c != kHeadText[n_matched_]) {
    out += head_;
    state_ = State::kRaw;
    return;
  }
  if (++n_matched_ == kHeadText.size()) state_ = State::kText;
}

void FreeText::PushEscape(char c, std::string& out) {
  if (c == 'u') {
    n_digits_ = 0;
    unit_ = 0;
    state_ = State::kUnicode;
    return;
  }
  EndSurrogate(out);
  constexpr std::string_view kNames = "bfnrt";
  constexpr std::string_view kValues = "\b\f\n\r\t";
  const size_t i = kNames.find(c);
  out += i == std::string_view::npos ? c : kValues[i];
  state_ = State::kText;
}

void FreeText::PushUnicode(char c, std::string& out) {
  const int digit = HexDigit(c);
  if (digit < 0) {  // no JSON: shown as what it is not, rather than lost
    EndSurrogate(out);
    AppendUtf8(out, 0xFFFD);
    state_ = State::kText;
    return;
  }
  unit_ = unit_ * 16 + static_cast<uint32_t>(digit);
  if (++n_digits_ < 4) return;
  state_ = State::kText;
  const bool is_second = unit_ >= 0xDC00 && unit_ <= 0xDFFF;
  if (is_second && surrogate_ != 0) {
    AppendUtf8(out, 0x10000 + ((surrogate_ - 0xD800) << 10) + (unit_ - 0xDC00));
    surrogate_ = 0;
    return;
  }
  EndSurrogate(out);
  if (unit_ >= 0xD800 && unit_ <= 0xDBFF) {
    surrogate_ = unit_;
  } else {
    AppendUtf8(out, is_second ? 0xFFFD : unit_);
  }
}

// A first half whose second half did not follow.
void FreeText::EndSurrogate(std::string& out) {
  if (surrogate_ != 0) AppendUtf8(out, 0xFFFD);
  surrogate_ = 0;
}

void FreeText::End(std::string& out) {
  if (state_ == State::kHead) out += head_;
  if (state_ == State::kText) EndSurrogate(out);
  state_ = State::kDone;
}

}  // namespace sluice::codec::responses
