// `sluice doctor`: whether this machine can serve, and what this binary is made of: the way of a
// token, and every limit.

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "app/app_options.h"
#include "app/checkup.h"
#include "app/command.h"
#include "base/json_writer.h"
#include "base/limits.h"
#include "base/trace.h"
#include "env/posix/posix_env.h"
#include "kernels/variants.h"

namespace sluice::app {
namespace {

constexpr std::string_view kCommand = "doctor";

constexpr std::string_view kHelp =
    "Says whether this machine can serve, and what this program is made of.\n"
    "\n"
    "usage: sluice doctor [MODEL] [--json] [--flag value ...]\n"
    "         processor, cores, memory, disk, limits, ports and clock, with the options of serve:\n"
    "         pass, warn or fail, and what would help. MODEL: whether it fits. Ends with 1 if\n"
    "         anything fails.\n"
    "       sluice doctor limits [--json] [--flag value ...]\n"
    "         every limit: fixed ones, and options as flags, environment and --config set them\n"
    "       sluice doctor cpu [--json] [--flag value ...]\n"
    "         the instruction sets of this processor, and which one each operator runs in\n"
    "       sluice doctor path [--json]\n"
    "         the ten hops of a token, with their trace zones\n";

// The rows as a JSON list; write(w, row) writes the fields of one.
template <typename Rows, typename Write>
std::string JsonOf(const Rows& rows, const Write& write) {
  std::string text;
  JsonWriter w(text);
  w.Array();
  for (const auto& row : rows) {
    w.Object();
    write(w, row);
    w.EndObject();
  }
  w.EndArray();
  return text + "\n";
}

// Options of serve with --json; the exit code if they are wrong.
std::optional<int> ReadOptions(
    const CommandLine& line, FileSystem& fs, OptionSet& set, AppOptions& options, bool& json) {
  options.Declare(set);
  set.Add("json", &json, {.help = "For programs.", .reach = OptionReach::kFlagOnly});
  const Status status = options.Read(set, line, fs);
  if (status.ok()) return std::nullopt;
  return FailUsage(kCommand, status);
}

struct LimitRow {
  std::string name;
  int64_t number;
  std::string value;  // with unit
  std::string_view unit;
  std::string_view sentence;
  std::string origin;
};

std::vector<LimitRow> LimitRows(const OptionSet& set) {
  std::vector<LimitRow> rows;
  for (const OptionLine& line : set.Lines()) {
    if (!line.is_limit) continue;
    // Sizes and durations are quoted and have their unit; counts are bare.
    const bool quoted = line.value.starts_with('"');
    rows.push_back({.name = std::string(line.name),
                    .number = line.number,
                    .value = quoted ? line.value.substr(1, line.value.size() - 2)
                                    : fmt::format("{} {}", line.value, line.unit),
                    .unit = line.unit,
                    .sentence = line.help,
                    .origin = line.origin});
  }
  for (const limits::Limit& limit : limits::All()) {
    rows.push_back({.name = std::string(limit.name),
                    .number = limit.value,
                    .value = fmt::format("{} {}", limit.value, limit.unit),
                    .unit = limit.unit,
                    .sentence = limit.sentence,
                    .origin = "fixed"});
  }
  return rows;
}

std::string LimitsText(const std::vector<LimitRow>& rows) {
  std::string text;
  for (const LimitRow& row : rows) {
    text += fmt::format("{:<24} {:>18}  {:<8} {}\n", row.name, row.value, row.origin, row.sentence);
  }
  return text;
}

std::string LimitsJson(const std::vector<LimitRow>& rows) {
  return JsonOf(rows, [](JsonWriter& w, const LimitRow& row) {
    w.Key("name").String(row.name);
    w.Key("value").Int(row.number);
    w.Key("unit").String(row.unit);
    w.Key("limits").String(row.sentence);
    w.Key("origin").String(row.origin);
  });
}

std::string PathText() {
  std::string text;
  for (const ZoneRow& row : kZones) {
    text += fmt::format("{:>2}  {:<13} {:<14} {} \u00b7 {}\n    {:<13} {:<14} {}\n", row.hop,
                        row.name, row.thread, row.file, row.function, "", "", row.from_to);
  }
  return text;
}

std::string PathJson() {
  return JsonOf(kZones, [](JsonWriter& w, const ZoneRow& row) {
    w.Key("hop").Int(row.hop);
    w.Key("zone").String(row.name);
    w.Key("thread").String(row.thread);
    w.Key("file").String(row.file);
    w.Key("function").String(row.function);
    w.Key("from_to").String(row.from_to);
  });
}

std::string ChecksText(const std::vector<Check>& checks) {
  std::string text;
  for (const Check& check : checks) {
    text += fmt::format("{}  {:<10}  {}\n", NameOf(check.verdict), check.name, check.finding);
    if (!check.remedy.empty()) text += fmt::format("      {:<10}  {}\n", "", check.remedy);
  }
  return text;
}

std::string ChecksJson(const std::vector<Check>& checks) {
  return JsonOf(checks, [](JsonWriter& w, const Check& row) {
    w.Key("check").String(row.name);
    w.Key("verdict").String(NameOf(row.verdict));
    w.Key("finding").String(row.finding);
    w.Key("remedy");
    row.remedy.empty() ? w.Null() : w.String(row.remedy);
  });
}

int Machine(const CommandLine& line) {
  const PosixEnv posix;
  AppOptions options;
  bool json = false;
  OptionSet set;
  if (const auto code = ReadOptions(line, posix.env().fs, set, options, json)) return *code;
  const std::vector<Check> checks = CheckUp(posix.env(), options);
  Print(json ? ChecksJson(checks) : ChecksText(checks));
  const bool fails = std::ranges::count(checks, Verdict::kFail, &Check::verdict) > 0;
  return fails ? kFailed : kDone;
}

int Limits(const CommandLine& line) {
  const PosixEnv posix;
  AppOptions options;
  bool json = false;
  OptionSet set;
  if (const auto code = ReadOptions(line, posix.env().fs, set, options, json)) return *code;
  Print(json ? LimitsJson(LimitRows(set)) : LimitsText(LimitRows(set)));
  return kDone;
}

// An operator, what it could run in here and what it does.
struct OpRow {
  std::string_view op;
  std::string_view used;
  std::string of;  // all that there are variants for, best first
  std::string why;
};

std::vector<OpRow> OpRows(const IsaChoice& choice) {
  std::vector<OpRow> rows;
  for (const ops::OpIsas& op : ops::OpsWithVariants()) {
    OpRow row{.op = op.op};
    for (const Isa isa : op.isas) {
      row.of += (row.of.empty() ? "" : ", ") + std::string(NameOf(isa));
      if (!row.used.empty()) continue;
      if (!IsasOfMachine().Has(isa)) {
        row.why += fmt::format("this processor has no {}; ", NameOf(isa));
      } else if (!choice.Of(op.op).Has(isa)) {
        row.why += fmt::format("variant keeps it from {}; ", NameOf(isa));
      } else {
        row.used = NameOf(isa);
        row.why += "the best that is left";
      }
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string OpsText(const std::vector<OpRow>& rows) {
  std::string text = "instruction sets here:";
  for (const Isa isa : kIsas) {
    if (IsasOfMachine().Has(isa)) text += fmt::format(" {}", NameOf(isa));
  }
  text += "\n";
  for (const OpRow& row : rows) {
    text += fmt::format("{:<14} {:<11} of {}: {}\n", row.op, row.used, row.of, row.why);
  }
  return text;
}

std::string OpsJson(const std::vector<OpRow>& rows) {
  return JsonOf(rows, [](JsonWriter& w, const OpRow& row) {
    w.Key("operator").String(row.op);
    w.Key("used").String(row.used);
    w.Key("of").String(row.of);
    w.Key("why").String(row.why);
  });
}

// What a matrix in rows or of another format is computed with may be lower.
int Cpu(const CommandLine& line) {
  const PosixEnv posix;
  AppOptions options;
  bool json = false;
  OptionSet set;
  if (const auto code = ReadOptions(line, posix.env().fs, set, options, json)) return *code;
  const Result<IsaChoice> choice = options.compute.Isas();
  if (!choice) return FailUsage(kCommand, choice.error());
  Print(json ? OpsJson(OpRows(*choice)) : OpsText(OpRows(*choice)));
  return kDone;
}

int Path(const CommandLine& line) {
  bool json = false;
  OptionSet set;
  set.Add("json", &json, {.help = "For programs.", .reach = OptionReach::kFlagOnly});
  if (Status status = set.ReadFlags(line.args); !status.ok()) return FailUsage(kCommand, status);
  Print(json ? PathJson() : PathText());
  return kDone;
}

}  // namespace

int DoctorMain(const CommandLine& line) {
  const std::string topic = line.args.empty() ? "" : line.args[0];
  if (AsksForHelp(line)) {
    Print(kHelp);
    return kDone;
  }
  CommandLine rest = line;
  if (!rest.args.empty()) rest.args.erase(rest.args.begin());
  if (topic == "limits") return Limits(rest);
  if (topic == "cpu") return Cpu(rest);
  if (topic == "path") return Path(rest);
  return Machine(line);
}

}  // namespace sluice::app
