#include <fmt/format.h>

#include <charconv>
#include <system_error>
#include <vector>

#include "base/json_scan_impl.h"
#include "base/utf8.h"

namespace sluice {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsHigh(uint32_t unit) { return unit >= 0xD800 && unit <= 0xDBFF; }
bool IsLow(uint32_t unit) { return unit >= 0xDC00 && unit <= 0xDFFF; }

class Scanner {
 public:
  Scanner(std::string_view text, int32_t depth_max, int64_t n_values_max)
      : text_(text), depth_max_(depth_max), n_values_max_(n_values_max) {}

  JsonScan Run() {
    size_t n_valid = ValidUtf8Prefix(text_);
    if (n_valid < text_.size()) {
      Fail(n_valid,
           fmt::format("byte 0x{:02x} is not UTF-8", static_cast<uint8_t>(text_[n_valid])));
    } else {
      while (!scan_.error && expect_ != Expect::kNothing) Step();
    }
    if (n_copied_ > 0) rewritten_.append(text_.substr(n_copied_));
    if (n_copied_ > 0) scan_.rewritten = std::move(rewritten_);
    return std::move(scan_);
  }

 private:
  enum class Expect : uint8_t {
    kValue,
    kValueOrEnd,  // after '['
    kKey,         // after ',' in an object
    kKeyOrEnd,    // after '{'
    kNext,        // after a value: a separator, the end of a container or of the text
    kNothing,     // done
  };

  void Step() {
    while (pos_ < text_.size() && IsSpace(text_[pos_])) ++pos_;
    switch (expect_) {
      case Expect::kValueOrEnd:
        if (At(']')) return Close();
        [[fallthrough]];
      case Expect::kValue:
        return Value();
      case Expect::kKeyOrEnd:
        if (At('}')) return Close();
        [[fallthrough]];
      case Expect::kKey:
        return Key();
      case Expect::kNext:
        return Next();
      case Expect::kNothing:
        return;
    }
  }

  static bool IsSpace(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }
  bool At(char c) const { return pos_ < text_.size() && text_[pos_] == c; }
  char Peek(size_t pos) const { return pos < text_.size() ? text_[pos] : '\0'; }

  void Fail(size_t offset, std::string what) {
    if (!scan_.error) scan_.error = JsonScan::Error{offset, std::move(what)};
  }

  void Value() {
    if (++scan_.n_values > n_values_max_) {
      return Fail(pos_, fmt::format("more than {} values", n_values_max_));
    }
    expect_ = Expect::kNext;
    char c = Peek(pos_);
    if (c == '{' || c == '[') return Open(c);
    if (c == '"') return String();
    if (c == '-' || IsDigit(c)) return Number();
    for (std::string_view literal : {"true", "false", "null"}) {
      if (text_.substr(pos_, literal.size()) == literal) {
        pos_ += literal.size();
        return;
      }
    }
    Fail(pos_,
         pos_ == text_.size() ? "the text ends where a value is expected" : "expected a value");
  }

  void Open(char c) {
    if (static_cast<int64_t>(open_.size()) == depth_max_) {
      return Fail(pos_, fmt::format("more than {} nested arrays and objects", depth_max_));
    }
    open_.push_back(c);
    ++pos_;
    expect_ = c == '{' ? Expect::kKeyOrEnd : Expect::kValueOrEnd;
  }

  void Close() {
    open_.pop_back();
    ++pos_;
    expect_ = Expect::kNext;
  }

  void Key() {
    if (!At('"')) return Fail(pos_, "expected a key in double quotes");
    String();
    while (pos_ < text_.size() && IsSpace(text_[pos_])) ++pos_;
    if (!At(':')) return Fail(pos_, "expected ':' after a key");
    ++pos_;
    expect_ = Expect::kValue;
  }

  void Next() {
    if (open_.empty()) {
      if (pos_ < text_.size()) return Fail(pos_, "text after the end of the JSON value");
      expect_ = Expect::kNothing;
      return;
    }
    bool in_object = open_.back() == '{';
    if (At(in_object ? '}' : ']')) return Close();
    if (!At(',')) {
      return Fail(pos_, in_object ? "expected ',' or '}'" : "expected ',' or ']'");
    }
    ++pos_;
    expect_ = in_object ? Expect::kKey : Expect::kValue;
  }

  void String() {
    const size_t begin = pos_++;
    while (true) {
      if (pos_ >= text_.size()) return Fail(begin, "a string without closing quote");
      char c = text_[pos_];
      if (c == '"') {
        ++pos_;
        return;
      }
      if (static_cast<unsigned char>(c) < 0x20) {
        return Fail(pos_,
                    fmt::format("raw control character U+{:04X} in a string; write it as an escape",
                                static_cast<uint8_t>(c)));
      }
      if (c != '\\') {
        ++pos_;
        continue;
      }
      Escape();
      if (scan_.error) return;
    }
  }

  // At a backslash.
  void Escape() {
    char c = Peek(pos_ + 1);
    if (c == 'u') return UnicodeEscape();
    if (c == '\0' || std::string_view("\"\\/bfnrt").find(c) == std::string_view::npos) {
      return Fail(pos_, "unknown escape in a string");
    }
    pos_ += 2;
  }

  void UnicodeEscape() {
    std::optional<uint32_t> unit = Hex4(pos_ + 2);
    if (!unit) return Fail(pos_, "\\u without four hexadecimal digits");
    if (IsHigh(*unit) && Peek(pos_ + 6) == '\\' && Peek(pos_ + 7) == 'u') {
      std::optional<uint32_t> second = Hex4(pos_ + 8);
      if (second && IsLow(*second)) {
        pos_ += 12;
        return;
      }
    }
    if (IsHigh(*unit) || IsLow(*unit)) {
      RewriteUpTo(pos_ + 2);
      rewritten_.append("fffd");
      n_copied_ = pos_ + 6;
    }
    pos_ += 6;
  }

  std::optional<uint32_t> Hex4(size_t pos) const {
    uint32_t value = 0;
    std::string_view digits = text_.substr(std::min(pos, text_.size()), 4);
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    if (error != std::errc() || digits.size() < 4 || end != digits.data() + 4) return std::nullopt;
    return value;
  }

  size_t SkipDigits(size_t pos) const {
    while (IsDigit(Peek(pos))) ++pos;
    return pos;
  }

  void Number() {
    const size_t begin = pos_;
    const size_t digits = begin + (text_[begin] == '-' ? 1 : 0);
    size_t end = SkipDigits(digits);
    bool malformed = end == digits || (text_[digits] == '0' && end > digits + 1);
    const size_t end_of_integer = end;
    if (Peek(end) == '.') {
      end = SkipDigits(end + 1);
      malformed |= end == end_of_integer + 1;
    }
    if (Peek(end) == 'e' || Peek(end) == 'E') {
      size_t exponent = end + 1;
      if (Peek(exponent) == '+' || Peek(exponent) == '-') ++exponent;
      end = SkipDigits(exponent);
      malformed |= end == exponent;
    }
    if (malformed) return Fail(begin, "malformed number");
    pos_ = end;
    std::string_view number = text_.substr(begin, end - begin);
    if (end == end_of_integer && FitsInteger(number)) return;
    if (IsTooLarge(number)) return Fail(begin, "a number out of the range of a double");
    if (end == end_of_integer) {
      RewriteUpTo(end);
      rewritten_.append(".0");
      n_copied_ = end;
    }
  }

  static bool FitsInteger(std::string_view number) {
    const char* end = number.data() + number.size();
    if (number == "-0") return false;
    int64_t i;
    uint64_t u;
    return std::from_chars(number.data(), end, i).ec == std::errc() ||
           std::from_chars(number.data(), end, u).ec == std::errc();
  }

  // More than any text has digits, and no sum with their number overflows.
  static constexpr int64_t kMaxShift = int64_t{1} << 62;

  // Out of range is also what is too small, which is a zero for us: the position of the first digit
  // that is not zero, moved by the exponent, tells the two apart.
  static bool IsTooLarge(std::string_view number) {
    double value;
    const char* end = number.data() + number.size();
    if (std::from_chars(number.data(), end, value).ec != std::errc::result_out_of_range)
      return false;
    std::string_view mantissa = number.substr(0, number.find_first_of("eE"));
    int64_t point = static_cast<int64_t>(std::min(mantissa.find('.'), mantissa.size()));
    int64_t first = static_cast<int64_t>(mantissa.find_first_of("123456789"));
    std::string_view exponent = number.substr(std::min(mantissa.size() + 1, number.size()));
    bool negative = exponent.starts_with('-');
    if (exponent.starts_with('+') || negative) exponent.remove_prefix(1);
    int64_t shift = 0;
    auto parsed = std::from_chars(exponent.data(), exponent.data() + exponent.size(), shift);
    if (parsed.ec == std::errc::result_out_of_range) return !negative;
    shift = std::min(shift, kMaxShift);
    return point - first + (negative ? -shift : shift) > 0;
  }

  // Copies the text before `pos` that is not copied yet.
  void RewriteUpTo(size_t pos) { rewritten_.append(text_.substr(n_copied_, pos - n_copied_)); }

  const std::string_view text_;
  const int32_t depth_max_;
  const int64_t n_values_max_;

  size_t pos_ = 0;
  Expect expect_ = Expect::kValue;
  std::vector<char> open_;  // the containers around pos_, as their opening characters
  JsonScan scan_;
  std::string rewritten_;  // text[0, n_copied_) as rewritten
  size_t n_copied_ = 0;    // 0: nothing was rewritten
};

}  // namespace

JsonScan ScanJson(std::string_view text, int32_t depth_max, int64_t n_values_max) {
  return Scanner(text, depth_max, n_values_max).Run();
}

}  // namespace sluice
