#include "codec/dialect/field.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json_writer.h"
#include "base/utf8.h"

namespace sluice::codec {

std::string Shorten(std::string_view text) {
  if (text.size() <= kShownBytes) return std::string(text);
  std::string_view head = text.substr(0, kShownBytes);
  return std::string(head.substr(0, ValidUtf8Prefix(head))) + "…";
}

std::string Describe(const JsonValue& value) {
  if (!value.exists()) return "nothing";
  switch (value.kind()) {
    case JsonKind::kNull:
      return "null";
    case JsonKind::kBool:
      return value.AsBool() ? "true" : "false";
    case JsonKind::kInt:
    case JsonKind::kUint:
    case JsonKind::kDouble:
      return "the number " + Shorten(value.ToText());
    case JsonKind::kString: {
      std::string text = "the string \"";
      AppendJsonEscaped(text, Shorten(value.AsString()));
      return text + '"';
    }
    case JsonKind::kArray:
      return "an array";
    case JsonKind::kObject:
      return "an object";
  }
  return "nothing";
}

Status WrongValue(std::string_view path, std::string_view allowed, const JsonValue& got) {
  return Status::Invalid(
      fmt::format("invalid request body: `{}` must be {}, not {}", path, allowed, Describe(got)));
}

Status Missing(std::string_view path, std::string_view allowed) {
  return Status::Invalid(
      fmt::format("invalid request body: missing field `{}`, which must be {}", path, allowed));
}

Status Named(Status status, std::string_view param) {
  if (!status.ok()) status.set_param(std::string(param));
  return status;
}

Status ReadBool(std::string_view path, const JsonValue& value, std::optional<bool>& into) {
  if (!value.exists() || value.is_null()) return Status::Ok();
  if (!value.is_bool()) return WrongValue(path, "a boolean", value);
  into = value.AsBool();
  return Status::Ok();
}

Status ReadNumber(std::string_view path, const JsonValue& value, std::optional<double>& into) {
  if (!value.exists() || value.is_null()) return Status::Ok();
  if (!value.is_number()) return WrongValue(path, "a number", value);
  into = value.AsDouble();
  return Status::Ok();
}

Status ReadUint(std::string_view path, const JsonValue& value, std::optional<uint64_t>& into) {
  if (!value.exists() || value.is_null()) return Status::Ok();
  if (value.is(JsonKind::kUint)) {
    into = value.AsUint64();
    return Status::Ok();
  }
  if (!value.is(JsonKind::kInt) || value.AsInt64() < 0)
    return WrongValue(path, "a whole number, not negative", value);
  into = static_cast<uint64_t>(value.AsInt64());
  return Status::Ok();
}

Status ReadString(std::string_view path,
                  const JsonValue& value,
                  std::optional<std::string_view>& into) {
  if (!value.exists() || value.is_null()) return Status::Ok();
  if (!value.is_string()) return WrongValue(path, "a string", value);
  into = value.AsString();
  return Status::Ok();
}

bool StartsWithIgnoringCase(std::string_view text, std::string_view lower) {
  return text.size() >= lower.size() &&
         std::ranges::equal(text.substr(0, lower.size()), lower, {},
                            [](char c) { return c >= 'A' && c <= 'Z' ? c | 32 : c; });
}

bool InRange(double value, double low, double high) { return value >= low && value <= high; }

}  // namespace sluice::codec
