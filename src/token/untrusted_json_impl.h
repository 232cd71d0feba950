// Looking at a tokenizer.json that may say anything. Pure functions.

#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "base/json_writer.h"
#include "base/utf8.h"

namespace sluice::token {

inline bool IsText(JsonValue value, std::string_view text) {
  return value.is_string() && value.AsString() == text;
}

inline bool IsFalse(JsonValue value) { return value.is_bool() && !value.AsBool(); }

inline bool IsAbsent(JsonValue value) { return !value || value.is_null(); }

// For error messages: in quotes, escaped, cut to some 60 bytes.
inline std::string Quoted(std::string_view text) {
  constexpr size_t kMaxShown = 60;
  const std::string_view begin = text.substr(0, kMaxShown);
  std::string quoted = "\"";
  AppendJsonEscaped(quoted, begin.substr(0, ValidUtf8Prefix(begin)));
  return quoted + (text.size() > kMaxShown ? "...\"" : "\"");
}

inline std::string Shown(JsonValue value) {
  if (!value) return "missing";
  if (value.is_string()) return Quoted(value.AsString());
  return value.is_bool() || value.is_number() ? value.ToText() : NameOf(value.kind());
}

}  // namespace sluice::token
