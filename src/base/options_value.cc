#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/json_writer.h"
#include "base/options_impl.h"
#include "base/quantity.h"
#include "base/utf8.h"

namespace sluice {
namespace {

// Of a refused value in a message: enough to recognise it.
constexpr size_t kShownBytes = 80;

// Texts go into log lines, file names and --print-config; a control character in one is a mistake
// or an attack. `allowed`: those that are neither.
bool IsPlain(std::string_view text, std::string_view allowed = {}) {
  const auto is_control = [allowed](char c) {
    const bool is_one = static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
    return is_one && allowed.find(c) == std::string_view::npos;
  };
  return ValidUtf8Prefix(text) == text.size() && std::none_of(text.begin(), text.end(), is_control);
}

std::string Quoted(std::string_view text) {
  std::string out = "\"";
  AppendJsonEscaped(out, text);
  out += '"';
  return out;
}

std::string NumberText(OptionKind kind, int64_t number) {
  if (kind == OptionKind::kBytes) return FormatBytes(number);
  if (kind == OptionKind::kDuration) return FormatDuration(Duration::Nanos(number));
  return std::to_string(number);
}

bool ParseInteger(std::string_view text, int64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

// No "inf", no "nan": the range is checked by comparisons.
bool ParseNumber(std::string_view text, double& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && std::isfinite(number);
}

// "a,b" has two elements, "" none.
std::vector<std::string> SplitAtCommas(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    parts.emplace_back(text.substr(0, comma));
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
  }
  return parts;
}

}  // namespace

std::string Shown(std::string_view outside) {
  std::string shown;
  AppendJsonEscaped(shown, outside.substr(0, kShownBytes));
  return outside.size() > kShownBytes ? shown + "..." : shown;
}

OptionValue DeclaredOption::Current() const {
  return std::visit(
      [](auto* at) -> OptionValue {
        using T = std::remove_pointer_t<decltype(at)>;
        if constexpr (std::is_same_v<T, Duration>) {
          return at->ns;
        } else if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
          return static_cast<int64_t>(*at);
        } else {
          return *at;
        }
      },
      target);
}

Status DeclaredOption::SetText(std::string_view value_text, const OptionSource& from) {
  OptionValue value;
  if (!Parse(value_text, value)) return Refuse(value_text, from);
  return Set(std::move(value), from);
}

Status DeclaredOption::Set(OptionValue value, const OptionSource& from) {
  if (!IsAllowed(value)) return Refuse(ShowText(value), from);
  if (from.origin < source.origin) return Status::Ok();
  source = from;
  std::visit(
      [&value](auto* at) {
        using T = std::remove_pointer_t<decltype(at)>;
        if constexpr (std::is_same_v<T, Duration>) {
          *at = Duration::Nanos(std::get<int64_t>(value));
        } else if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
          *at = static_cast<T>(std::get<int64_t>(value));
        } else {
          *at = std::get<T>(std::move(value));
        }
      },
      target);
  return Status::Ok();
}

Status DeclaredOption::Refuse(std::string_view shown, const OptionSource& from) const {
  const std::string seen = shown.empty()                 ? "\"\""
                           : kind == OptionKind::kSecret ? "***"
                                                         : Shown(shown);
  return Status::InvalidField(
      std::string(name),
      fmt::format("{} = {} ({}) is not allowed: must be {}", name, seen, from.where, Allowed()));
}

bool DeclaredOption::Parse(std::string_view value_text, OptionValue& value) const {
  switch (kind) {
    case OptionKind::kText:
    case OptionKind::kSecret:
      value = std::string(value_text);
      return true;
    case OptionKind::kBool:
      value = value_text == "true";
      return value_text == "true" || value_text == "false";
    case OptionKind::kInteger: {
      int64_t number = 0;
      const bool parsed = ParseInteger(value_text, number);
      value = number;
      return parsed;
    }
    case OptionKind::kNumber: {
      double number = 0;
      const bool parsed = ParseNumber(value_text, number);
      value = number;
      return parsed;
    }
    case OptionKind::kBytes: {
      const std::optional<int64_t> n_bytes = ParseBytes(value_text);
      value = n_bytes.value_or(0);
      return n_bytes.has_value();
    }
    case OptionKind::kDuration: {
      const std::optional<Duration> duration = ParseDuration(value_text);
      value = duration.value_or(Duration{}).ns;
      return duration.has_value();
    }
    case OptionKind::kChoice: {
      const auto at = std::find(choices.begin(), choices.end(), value_text);
      value = static_cast<int64_t>(at - choices.begin());
      return at != choices.end();
    }
    case OptionKind::kList:
      value = SplitAtCommas(value_text);
      return true;
  }
  return false;
}

bool DeclaredOption::IsAllowed(const OptionValue& value) const {
  if (const auto* text_value = std::get_if<std::string>(&value)) {
    if (kind == OptionKind::kSecret && text_value->empty()) return false;
    return IsPlain(*text_value, text.has_lines ? "\t\n\r" : "");
  }
  if (const auto* number = std::get_if<int64_t>(&value)) {
    return *number >= range.min && *number <= range.max;
  }
  if (const auto* number = std::get_if<double>(&value)) {
    return *number >= number_range.min && *number <= number_range.max;
  }
  if (const auto* list = std::get_if<std::vector<std::string>>(&value)) {
    return std::all_of(list->begin(), list->end(),
                       [](const std::string& s) { return !s.empty() && IsPlain(s); });
  }
  return true;
}

std::string DeclaredOption::ShowText(const OptionValue& value) const {
  if (const auto* text_value = std::get_if<std::string>(&value)) {
    return kind == OptionKind::kSecret && !text_value->empty() ? "***" : *text_value;
  }
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* list = std::get_if<std::vector<std::string>>(&value)) {
    return fmt::format("{}", fmt::join(*list, ","));
  }
  if (const auto* number = std::get_if<double>(&value)) return fmt::format("{}", *number);
  const int64_t number = std::get<int64_t>(value);
  return kind == OptionKind::kChoice ? std::string(choices[static_cast<size_t>(number)])
                                     : NumberText(kind, number);
}

std::string DeclaredOption::ShowToml(const OptionValue& value) const {
  if (kind == OptionKind::kBool || kind == OptionKind::kInteger || kind == OptionKind::kNumber) {
    return ShowText(value);
  }
  const auto* list = std::get_if<std::vector<std::string>>(&value);
  if (list == nullptr) return Quoted(ShowText(value));
  std::string out;
  for (const std::string& element : *list) out += (out.empty() ? "" : ", ") + Quoted(element);
  return "[" + out + "]";
}

std::string DeclaredOption::Range() const {
  switch (kind) {
    case OptionKind::kBool:
      return "true, false";
    case OptionKind::kChoice:
      return fmt::format("{}", fmt::join(choices, ", "));
    case OptionKind::kNumber:
      return fmt::format("{} to {}", number_range.min, number_range.max);
    case OptionKind::kInteger:
    case OptionKind::kBytes:
    case OptionKind::kDuration:
      if (range.max == INT64_MAX) return "at least " + NumberText(kind, range.min);
      return NumberText(kind, range.min) + " to " + NumberText(kind, range.max);
    default:
      return {};
  }
}

std::string DeclaredOption::Allowed() const {
  const bool is_open = kind != OptionKind::kNumber && range.max == INT64_MAX;
  const std::string bounds = (is_open ? "" : "from ") + Range();
  switch (kind) {
    case OptionKind::kBool:
      return "true or false";
    case OptionKind::kChoice:
      return "one of " + Range();
    case OptionKind::kNumber:
      return "a number, " + bounds;
    case OptionKind::kInteger:
      return "a whole number, " + bounds;
    case OptionKind::kBytes:
      return "a size with its unit (B, KiB, MiB, GiB), such as " + ShowToml(default_value) + ", " +
             bounds;
    case OptionKind::kDuration:
      return "a duration with its unit (ns, us, ms, s, m, h), such as " + ShowToml(default_value) +
             ", " + bounds;
    case OptionKind::kList:
      return "a list of texts in UTF-8, none empty, without control characters";
    case OptionKind::kSecret:
      return "text in UTF-8, not empty, without control characters";
    default:
      return text.has_lines ? "text in UTF-8; of control characters tabs and line ends"
                            : "text in UTF-8 without control characters";
  }
}

}  // namespace sluice
