#include "base/json_writer.h"

#include <fmt/compile.h>
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/utf8.h"
#include "base/utf8_impl.h"

namespace sluice {
namespace {

constexpr uint64_t kOnes = 0x0101010101010101ull;
constexpr uint64_t kHighBits = 0x8080808080808080ull;

bool IsPlain(unsigned char c) { return c >= 0x20 && c < 0x80 && c != '"' && c != '\\'; }

// Whether eight bytes are all IsPlain. A borrow can only make a plain byte look special, never the
// reverse.
bool AllPlain(uint64_t v) {
  uint64_t control = v - kOnes * 0x20;
  uint64_t quote = (v ^ (kOnes * '"')) - kOnes;
  uint64_t backslash = (v ^ (kOnes * '\\')) - kOnes;
  return ((v | control | quote | backslash) & kHighBits) == 0;
}

// Bytes at the start of p[0, n) that are written as they are.
size_t PlainPrefix(const unsigned char* p, size_t n) {
  size_t i = 0;
  while (i + 8 <= n) {
    uint64_t v;
    std::memcpy(&v, p + i, 8);
    if (!AllPlain(v)) break;
    i += 8;
  }
  while (i < n && IsPlain(p[i])) ++i;
  return i;
}

void AppendEscape(std::string& out, unsigned char c) {
  switch (c) {
    case '"':
      out.append("\\\"", 2);
      return;
    case '\\':
      out.append("\\\\", 2);
      return;
    case '\b':
      out.append("\\b", 2);
      return;
    case '\f':
      out.append("\\f", 2);
      return;
    case '\n':
      out.append("\\n", 2);
      return;
    case '\r':
      out.append("\\r", 2);
      return;
    case '\t':
      out.append("\\t", 2);
      return;
    default:
      break;
  }
  constexpr char kHex[] = "0123456789abcdef";
  const char escape[] = {'\\', 'u', '0', '0', kHex[c >> 4], kHex[c & 15]};
  out.append(escape, sizeof(escape));
}

}  // namespace

void AppendJsonEscaped(std::string& out, std::string_view text) {
  const unsigned char* p = reinterpret_cast<const unsigned char*>(text.data());
  const size_t n = text.size();
  size_t begin = 0;  // of the run that is not yet copied
  size_t i = 0;
  while (true) {
    i += PlainPrefix(p + i, n - i);
    if (i == n) break;
    if (size_t n_wide = WidePrefix(p + i, n - i); n_wide > 0) {
      i += n_wide;
      continue;
    }
    out.append(text.data() + begin, i - begin);
    if (p[i] < 0x80) {
      AppendEscape(out, p[i]);
      ++i;
    } else {
      out.append(kReplacementCharacter);
      i += StepUtf8(p + i, n - i).n_bytes;
    }
    begin = i;
  }
  out.append(text.data() + begin, n - begin);
}

void JsonWriter::BeforeValue() {
  if (needs_comma_) out_.push_back(',');
  needs_comma_ = true;
}

JsonWriter& JsonWriter::Object() {
  BeforeValue();
  out_.push_back('{');
  needs_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::EndObject() {
  out_.push_back('}');
  needs_comma_ = true;
  return *this;
}

JsonWriter& JsonWriter::Array() {
  BeforeValue();
  out_.push_back('[');
  needs_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::EndArray() {
  out_.push_back(']');
  needs_comma_ = true;
  return *this;
}

JsonWriter& JsonWriter::Key(std::string_view key) {
  String(key);
  out_.push_back(':');
  needs_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::String(std::string_view text) {
  BeforeValue();
  out_.push_back('"');
  AppendJsonEscaped(out_, text);
  out_.push_back('"');
  return *this;
}

JsonWriter& JsonWriter::Int(int64_t value) {
  BeforeValue();
  char digits[20];
  out_.append(digits, std::to_chars(digits, digits + sizeof(digits), value).ptr);
  return *this;
}

JsonWriter& JsonWriter::Uint(uint64_t value) {
  BeforeValue();
  char digits[20];
  out_.append(digits, std::to_chars(digits, digits + sizeof(digits), value).ptr);
  return *this;
}

JsonWriter& JsonWriter::Double(double value) {
  SLUICE_CHECK(std::isfinite(value));
  BeforeValue();
  char digits[32];  // the longest is "-2.2250738585072014e-308"
  char* end = fmt::format_to(digits, FMT_COMPILE("{}"), value);
  std::string_view text(digits, static_cast<size_t>(end - digits));
  out_.append(text);
  // Whole numbers keep a fraction, so that a reader sees the same kind of number again (spec
  // recipe.md §4).
  if (text.find_first_of(".e") == std::string_view::npos) out_.append(".0");
  return *this;
}

JsonWriter& JsonWriter::Bool(bool value) { return Raw(value ? "true" : "false"); }

JsonWriter& JsonWriter::Null() { return Raw("null"); }

JsonWriter& JsonWriter::Raw(std::string_view json) {
  BeforeValue();
  out_.append(json);
  return *this;
}

}  // namespace sluice
