// What OptionSet prints: help, config file, documentation. All from Lines(), so that they cannot
// differ.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/json_writer.h"
#include "base/options_impl.h"

namespace sluice {
namespace {

constexpr size_t kHelpColumns = 100;
constexpr size_t kHelpIndent = 30;  // of the sentences, behind the flags

// Appends `text` in lines of at most `columns`, each further line after `indent`; the cursor stands
// at `column`.
void AppendWrapped(std::string& out,
                   std::string_view text,
                   std::string_view indent,
                   size_t column) {
  bool line_is_empty = true;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(word.size() + 1, text.size()));
    if (!line_is_empty && column + 1 + word.size() > kHelpColumns) {
      out += '\n';
      out += indent;
      column = indent.size();
      line_is_empty = true;
    }
    if (!line_is_empty) out += ' ';
    out += word;
    column += word.size() + (line_is_empty ? 0 : 1);
    line_is_empty = false;
  }
  out += '\n';
}

std::string_view Placeholder(const DeclaredOption& option) {
  if (!option.text.value.empty()) return option.text.value;
  switch (option.kind) {
    case OptionKind::kBool:
      return "";
    case OptionKind::kInteger:
      return "N";
    case OptionKind::kNumber:
      return "X";
    case OptionKind::kBytes:
      return "SIZE";
    case OptionKind::kDuration:
      return "TIME";
    case OptionKind::kChoice:
      return "NAME";
    default:
      return "TEXT";
  }
}

// Of a count; sizes and durations carry theirs already.
std::string UnitSuffix(const OptionLine& line) {
  const bool is_count = !line.unit.empty() && line.unit != "bytes" && line.unit != "ns";
  return is_count ? fmt::format(" {}", line.unit) : "";
}

// " [default 8000; 0 to 65535]", without what says nothing.
std::string Bracket(const OptionLine& line) {
  if (line.reach == OptionReach::kFlagOnly) return {};
  std::vector<std::string> parts;
  if (!line.default_text.empty() && line.default_text != "false") {
    parts.push_back(fmt::format("default {}{}", line.default_text, UnitSuffix(line)));
  }
  if (!line.allowed.empty() && line.allowed != "true, false") parts.push_back(line.allowed);
  return parts.empty() ? "" : fmt::format(" [{}]", fmt::join(parts, "; "));
}

}  // namespace

std::vector<OptionLine> OptionSet::Lines() const {
  std::vector<OptionLine> lines;
  for (const DeclaredOption& option : options_) {
    const OptionValue value = option.Current();
    OptionLine line = {.group = option.group,
                       .name = option.name,
                       .value = option.ShowToml(value),
                       .default_text = option.ShowText(option.default_value),
                       .allowed = option.Range(),
                       .help = option.text.help,
                       .origin = option.source.where,
                       .number = 0,
                       .unit = option.text.unit,
                       .is_limit = option.text.is_limit,
                       .is_secret = option.kind == OptionKind::kSecret,
                       .reach = option.text.reach};
    if (option.kind == OptionKind::kBytes) line.unit = "bytes";
    if (option.kind == OptionKind::kDuration) line.unit = "ns";
    if (option.kind != OptionKind::kChoice && std::holds_alternative<int64_t>(value)) {
      line.number = std::get<int64_t>(value);
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

std::string OptionSet::Help() const {
  const std::string indent(kHelpIndent, ' ');
  const std::vector<OptionLine> lines = Lines();
  std::string out;
  std::string_view group;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].group != group) {
      group = lines[i].group;
      out += fmt::format("{}{}\n", out.empty() ? "" : "\n", group);
    }
    std::string left = fmt::format("  --{} {}", lines[i].name, Placeholder(options_[i]));
    if (left.size() >= kHelpIndent) {
      out += left + '\n';
      left.clear();
    }
    out += left + std::string(kHelpIndent - left.size(), ' ');
    AppendWrapped(out, fmt::format("{}{}", lines[i].help, Bracket(lines[i])), indent, kHelpIndent);
  }
  return out;
}

std::string OptionSet::PrintConfig() const {
  std::string out;
  std::string_view group;
  for (const OptionLine& line : Lines()) {
    if (line.reach != OptionReach::kAnywhere) continue;
    if (line.group != group) {
      group = line.group;
      out += fmt::format("\n# {}\n", group);
    }
    out += fmt::format("\n# {}{}\n", line.help, Bracket(line));
    // A secret stays out of the file, which people copy and mail.
    if (line.is_secret) out += "# ";
    std::string origin;
    AppendJsonEscaped(origin, line.origin);
    out += fmt::format("{} = {}  # {}\n", line.name, line.value, origin);
  }
  return out;
}

std::string OptionSet::MarkdownTables() const {
  std::string out;
  std::string_view group;
  for (const OptionLine& line : Lines()) {
    if (line.reach == OptionReach::kFlagOnly) continue;
    if (line.group != group) {
      group = line.group;
      out +=
          fmt::format("{}### {}\n\n| option | default | allowed | meaning |\n|---|---|---|---|\n",
                      out.empty() ? "" : "\n", group);
    }
    const std::string standard =
        line.default_text.empty() ? "" : fmt::format("`{}`{}", line.default_text, UnitSuffix(line));
    out += fmt::format("| `{}` | {} | {} | {} |\n", line.name, standard, line.allowed, line.help);
  }
  return out;
}

}  // namespace sluice
