// `sluice config`: what can be set, and whether a file sets it right.

#include <fmt/format.h>

#include <algorithm>

#include "app/app_options.h"
#include "app/command.h"
#include "env/posix/posix_env.h"

namespace sluice::app {
namespace {

constexpr std::string_view kCommand = "config";

constexpr std::string_view kHelp =
    "Says what can be set, and whether a file sets it right.\n"
    "\n"
    "usage: sluice config check FILE   reads FILE as `sluice serve --config FILE` does\n"
    "       sluice config docs         all options as Markdown tables\n";

int Check(const std::string& file) {
  const PosixEnv posix;
  AppOptions options;
  OptionSet set;
  options.Declare(set);
  const Status status =
      options.Read(set, {.args = {"--config", file}, .environment = {}}, posix.env().fs);
  if (!status.ok()) return Fail(kCommand, status);
  const std::vector<OptionLine> lines = set.Lines();
  const auto n_set = std::count_if(lines.begin(), lines.end(), [&file](const OptionLine& line) {
    return line.origin.starts_with(file + ":");
  });
  Print(fmt::format("{}: right; sets {} options\n", file, n_set));
  return kDone;
}

int Docs() {
  AppOptions options;
  OptionSet set;
  options.Declare(set);
  Print(set.MarkdownTables());
  return kDone;
}

}  // namespace

int ConfigMain(const CommandLine& line) {
  const std::vector<std::string>& args = line.args;
  if (AsksForHelp(line)) {
    Print(kHelp);
    return kDone;
  }
  if (args.size() == 2 && args[0] == "check") return Check(args[1]);
  if (args.size() == 1 && args[0] == "docs") return Docs();
  return FailUsage(kCommand, Status::Invalid("say `check FILE` or `docs`"));
}

}  // namespace sluice::app
