// One option of an OptionSet: its kind, its target, and what may stand in it. Private to
// base/options*.cc.

#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/options.h"

namespace sluice {

enum class OptionKind : uint8_t {
  kText,
  kSecret,
  kBool,
  kInteger,
  kNumber,
  kBytes,
  kDuration,
  kChoice,
  kList
};

// A choice is the index of its name; sizes are bytes, durations nanoseconds.
using OptionValue = std::variant<std::string, bool, int64_t, double, std::vector<std::string>>;

// What came from outside, escaped and cut for a message.
std::string Shown(std::string_view outside);

struct OptionSource {
  OptionOrigin origin;
  std::string where;  // for people: "flag --port", "sluice.toml:3"
};

struct DeclaredOption {
  std::string_view group = {};
  std::string_view name;
  OptionKind kind;
  std::variant<std::string*,
               bool*,
               int32_t*,
               int64_t*,
               double*,
               Duration*,
               uint8_t*,
               std::vector<std::string>*>
      target;
  OptionText text = {};
  OptionRange range = {};
  NumberRange number_range = {};
  std::vector<std::string_view> choices = {};
  OptionValue default_value = {};
  OptionSource source = {};

  OptionValue Current() const;

  // Checks, and stores unless a stronger source was there before.
  Status Set(OptionValue value, const OptionSource& from);
  // As a flag or an environment variable has it; commas separate the elements of a list.
  Status SetText(std::string_view value_text, const OptionSource& from);
  // The error of both. `shown`: the refused value, cut and escaped here; a secret's is not shown.
  Status Refuse(std::string_view shown, const OptionSource& from) const;

  bool Parse(std::string_view value_text, OptionValue& value) const;
  bool IsAllowed(const OptionValue& value) const;

  // As a flag has it, and as TOML has it; `***` for a secret that is set. `value` is allowed, or of
  // a kind that is not a choice.
  std::string ShowText(const OptionValue& value) const;
  std::string ShowToml(const OptionValue& value) const;
  // "0 to 65535", "text, json".
  std::string Range() const;
  // "an integer from 0 to 65535": what a refusal says.
  std::string Allowed() const;
};

}  // namespace sluice
