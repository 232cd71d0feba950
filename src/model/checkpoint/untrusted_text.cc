#include "model/checkpoint/untrusted_text.h"

#include <algorithm>

#include "base/json_writer.h"
#include "base/limits.h"
#include "base/utf8.h"

namespace sluice::model {

static_assert(limits::kMaxTensorNameBytes == 256, "kPlainNameRule says so");

bool IsPlainName(std::string_view name) {
  return !name.empty() && name.size() <= limits::kMaxTensorNameBytes &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return c > ' ' && c <= '~' && c != '"' && c != '\\'; });
}

namespace {
constexpr size_t kShownBytes = 60;
}  // namespace

std::string Quote(std::string_view text) {
  std::string shown = "\"";
  // A character that is cut in half becomes U+FFFD.
  AppendJsonEscaped(shown, text.substr(0, kShownBytes));
  return shown + (text.size() > kShownBytes ? "...\"" : "\"");
}

std::string Shorten(std::string_view json) {
  if (json.size() <= kShownBytes) return std::string(json);
  const std::string_view shown = json.substr(0, kShownBytes);
  return std::string(shown.substr(0, ValidUtf8Prefix(shown))) + "...";
}

}  // namespace sluice::model
