#include "base/options.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/limits.h"
#include "base/options_impl.h"
#include "base/result.h"

namespace sluice {
namespace {

constexpr std::string_view kEnvironmentPrefix = "SLUICE_";

// Longer names are compared by their beginning: no declared name is as long.
constexpr size_t kNearestBytes = 64;

std::string EnvironmentName(std::string_view option) {
  std::string name(kEnvironmentPrefix);
  for (char c : option)
    name += c == '-' ? '_' : (c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c);
  return name;
}

std::string OptionName(std::string_view environment_name) {
  std::string name;
  for (char c : environment_name.substr(kEnvironmentPrefix.size())) {
    name += c == '_' ? '-' : (c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c);
  }
  return name;
}

// Levenshtein distance by one rolling row.
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

Status SetFlag(DeclaredOption& option, const std::vector<std::string>& values) {
  if (values.empty()) return Status::Ok();
  const OptionSource source = {OptionOrigin::kFlag, fmt::format("flag --{}", option.name)};
  if (option.kind == OptionKind::kList) return option.Set(values, source);
  if (values.size() > 1) {
    return Status::InvalidField(std::string(option.name),
                                fmt::format("--{} is given {} times", option.name, values.size()));
  }
  return option.SetText(values.front(), source);
}

// What a value of the wrong TOML type is called in the refusal.
std::string ShowNode(const toml::node& node) {
  if (auto text = node.value_exact<std::string>()) return "the text " + *text;
  if (auto number = node.value_exact<int64_t>()) return std::to_string(*number);
  if (auto flag = node.value_exact<bool>()) return *flag ? "true" : "false";
  switch (node.type()) {
    case toml::node_type::table:
      return "a table";
    case toml::node_type::array:
      return "a list";
    case toml::node_type::floating_point:
      return "a fraction";
    default:
      return "a date or time";
  }
}

// Nothing unless an array of texts.
std::optional<std::vector<std::string>> ToTexts(const toml::node& node) {
  if (!node.is_array()) return std::nullopt;
  std::vector<std::string> texts;
  for (const toml::node& element : *node.as_array()) {
    std::optional<std::string> text = element.value_exact<std::string>();
    if (!text) return std::nullopt;
    texts.push_back(std::move(*text));
  }
  return texts;
}

Status SetToml(DeclaredOption& option, const toml::node& node, const OptionSource& source) {
  switch (option.kind) {
    case OptionKind::kList:
      if (auto texts = ToTexts(node)) return option.Set(std::move(*texts), source);
      break;
    case OptionKind::kBool:
      if (auto flag = node.value_exact<bool>()) return option.Set(*flag, source);
      break;
    case OptionKind::kInteger:
      if (auto number = node.value_exact<int64_t>()) return option.Set(*number, source);
      break;
    case OptionKind::kNumber:
      if (auto number = node.value_exact<int64_t>()) {
        return option.Set(static_cast<double>(*number), source);
      }
      if (auto number = node.value_exact<double>()) return option.Set(*number, source);
      break;
    default:
      if (auto text = node.value_exact<std::string>()) return option.SetText(*text, source);
  }
  return option.Refuse(ShowNode(node), source);
}

// Every level of nested tables is named behind a dot (or is an inline one, which the parser
// bounds), and the parser's tree is freed by recursion: so many levels still fit a stack. Full-line
// comments may have as many as they like.
bool HasTooManyDots(std::string_view text) {
  int64_t n_dots = 0;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    if (!line.starts_with('#')) n_dots += std::count(line.begin(), line.end(), '.');
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
  return n_dots > limits::kMaxConfigDots;
}

}  // namespace

std::string_view NearestName(std::string_view name, std::span<const std::string_view> known) {
  name = name.substr(0, kNearestBytes);
  std::string_view best;
  size_t best_distance = SIZE_MAX;
  for (std::string_view candidate : known) {
    const size_t distance = EditDistance(name, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

OptionSet::OptionSet() = default;
OptionSet::~OptionSet() = default;

void OptionSet::Add(std::string_view name, std::string* target, const OptionText& text) {
  Declare({.name = name, .kind = OptionKind::kText, .target = target, .text = text});
}

void OptionSet::Add(std::string_view name, bool* target, const OptionText& text) {
  Declare({.name = name, .kind = OptionKind::kBool, .target = target, .text = text});
}

void OptionSet::Add(std::string_view name,
                    std::vector<std::string>* target,
                    const OptionText& text) {
  Declare({.name = name, .kind = OptionKind::kList, .target = target, .text = text});
}

void OptionSet::Add(std::string_view name,
                    int32_t* target,
                    OptionRange range,
                    const OptionText& text) {
  SLUICE_CHECK(range.min >= INT32_MIN && range.max <= INT32_MAX);
  Declare(
      {.name = name, .kind = OptionKind::kInteger, .target = target, .text = text, .range = range});
}

void OptionSet::Add(std::string_view name,
                    int64_t* target,
                    OptionRange range,
                    const OptionText& text) {
  Declare(
      {.name = name, .kind = OptionKind::kInteger, .target = target, .text = text, .range = range});
}

void OptionSet::Add(std::string_view name,
                    double* target,
                    NumberRange range,
                    const OptionText& text) {
  Declare({.name = name,
           .kind = OptionKind::kNumber,
           .target = target,
           .text = text,
           .number_range = range});
}

void OptionSet::Add(std::string_view name,
                    Duration* target,
                    OptionRange range,
                    const OptionText& text) {
  SLUICE_CHECK(range.min >= 0);
  Declare({.name = name,
           .kind = OptionKind::kDuration,
           .target = target,
           .text = text,
           .range = range});
}

void OptionSet::AddBytes(std::string_view name,
                         int64_t* target,
                         OptionRange range,
                         const OptionText& text) {
  SLUICE_CHECK(range.min >= 0);
  Declare(
      {.name = name, .kind = OptionKind::kBytes, .target = target, .text = text, .range = range});
}

void OptionSet::AddSecret(std::string_view name, std::string* target, const OptionText& text) {
  Declare({.name = name, .kind = OptionKind::kSecret, .target = target, .text = text});
}

void OptionSet::AddChoiceIndex(std::string_view name,
                               uint8_t* target,
                               std::span<const std::string_view> names,
                               const OptionText& text) {
  SLUICE_CHECK(!names.empty());
  Declare({.name = name,
           .kind = OptionKind::kChoice,
           .target = target,
           .text = text,
           .range = {.min = 0, .max = static_cast<int64_t>(names.size()) - 1},
           .choices = {names.begin(), names.end()}});
}

void OptionSet::Declare(DeclaredOption option) {
  SLUICE_CHECK(Find(option.name, OptionReach::kFlagOnly) == nullptr);
  option.group = group_;
  option.default_value = option.Current();
  option.source = {OptionOrigin::kDefault, "default"};
  // A secret has no default, and cannot be set to nothing.
  SLUICE_CHECK(option.kind == OptionKind::kSecret || option.IsAllowed(option.default_value));
  options_.push_back(std::move(option));
}

// Options that may come from a source with this reach: a flag reaches all of them, a file those of
// kAnywhere.
DeclaredOption* OptionSet::Find(std::string_view name, OptionReach reach) {
  for (DeclaredOption& option : options_) {
    if (option.name == name && option.text.reach <= reach) return &option;
  }
  return nullptr;
}

std::string_view OptionSet::Nearest(std::string_view name, OptionReach reach) const {
  std::vector<std::string_view> known;
  for (const DeclaredOption& option : options_) {
    if (option.text.reach <= reach) known.push_back(option.name);
  }
  return NearestName(name, known);
}

void OptionSet::SetDefault(std::string_view name, std::string_view value, std::string_view where) {
  DeclaredOption* option = Find(name, OptionReach::kFlagOnly);
  SLUICE_CHECK(option != nullptr);
  const Status status = option->SetText(value, {OptionOrigin::kDefault, std::string(where)});
  SLUICE_CHECK(status.ok());
}

Status OptionSet::ReadFlags(std::span<const std::string> args, std::vector<std::string>* others) {
  CLI::App parser;
  parser.set_help_flag("");
  parser.allow_extras();
  std::vector<CLI::Option*> flags;
  try {
    for (const DeclaredOption& option : options_) {
      const std::string name =
          fmt::format("--{}{}", option.name, option.name == "help" ? ",-h" : "");
      CLI::Option* flag = option.kind == OptionKind::kBool
                              ? parser.add_flag(fmt::format("{0},!--no-{1}", name, option.name))
                              : parser.add_option(name)->expected(1)->allow_extra_args(false);
      flag->type_name("value")->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
      flags.push_back(flag);
    }
    parser.parse(std::vector<std::string>(args.rbegin(), args.rend()));
  } catch (const CLI::Error& error) {
    return Status::Invalid(error.what());
  }
  for (size_t i = 0; i < options_.size(); ++i) {
    SLUICE_TRY(SetFlag(options_[i], flags[i]->results()));
  }
  for (const std::string& extra : parser.remaining()) {
    if (!extra.starts_with("-")) {
      if (others == nullptr) {
        return Status::Invalid(fmt::format("unexpected argument {}", Shown(extra)));
      }
      others->push_back(extra);
      continue;
    }
    const std::string name = extra.substr(0, extra.find('='));
    const size_t dashes = name.find_first_not_of('-');
    return Status::Invalid(fmt::format(
        "unknown flag {}; did you mean --{}?", Shown(name),
        Nearest(dashes == std::string::npos ? name : name.substr(dashes), OptionReach::kFlagOnly)));
  }
  return Status::Ok();
}

Status OptionSet::ReadEnvironment(const Environment& environment) {
  for (auto at = environment.lower_bound(kEnvironmentPrefix); at != environment.end(); ++at) {
    const std::string& name = at->first;
    if (!name.starts_with(kEnvironmentPrefix)) break;
    DeclaredOption* option = Find(OptionName(name), OptionReach::kFlagOrEnvironment);
    if (option == nullptr || EnvironmentName(option->name) != name) {
      return Status::Invalid(
          fmt::format("unknown environment variable {}; did you mean {}?", Shown(name),
                      EnvironmentName(Nearest(OptionName(name), OptionReach::kFlagOrEnvironment))));
    }
    SLUICE_TRY(option->SetText(at->second, {OptionOrigin::kEnvironment, "environment " + name}));
  }
  return Status::Ok();
}

Status OptionSet::ReadFile(std::string_view text, std::string_view file_name) {
  if (static_cast<int64_t>(text.size()) > limits::kMaxConfigFileBytes) {
    return Status::Invalid(fmt::format("{} has {} bytes; a config file has at most {}", file_name,
                                       text.size(), limits::kMaxConfigFileBytes));
  }
  if (HasTooManyDots(text)) {
    return Status::Invalid(
        fmt::format("{} has more than {} dots", file_name, limits::kMaxConfigDots));
  }
  toml::table table;
  try {
    table = toml::parse(text);
  } catch (const toml::parse_error& error) {
    return Status::Invalid(fmt::format("{}:{}: not TOML: {}", file_name, error.source().begin.line,
                                       error.description()));
  } catch (const std::exception& error) {
    return Status::Invalid(fmt::format("{}: not TOML: {}", file_name, error.what()));
  }
  for (const auto& [key, node] : table) {
    const std::string where = fmt::format("{}:{}", file_name, key.source().begin.line);
    DeclaredOption* option = Find(key.str(), OptionReach::kAnywhere);
    if (option == nullptr) {
      return Status::Invalid(fmt::format("{}: unknown option {}; did you mean {}?", where,
                                         key.str(), Nearest(key.str(), OptionReach::kAnywhere)));
    }
    SLUICE_TRY(SetToml(*option, node, {OptionOrigin::kFile, where}));
  }
  return Status::Ok();
}

}  // namespace sluice
