#include "app/command.h"

#include <fmt/format.h>

#include <span>

#include <algorithm>
#include <cstdio>

namespace sluice::app {

void Print(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

void Complain(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stderr); }

bool AsksForHelp(const CommandLine& line) {
  return std::any_of(line.args.begin(), line.args.end(),
                     [](const std::string& arg) { return arg == "--help" || arg == "-h"; });
}

std::optional<int> ReadUsage(std::string_view command,
                             const CommandLine& line,
                             OptionSet& set,
                             std::string_view help,
                             std::string_view first) {
  if (AsksForHelp(line)) {
    Print(help);
    Print(set.Help());
    return kDone;
  }
  if (line.args.empty() || line.args[0].empty() || line.args[0].starts_with("-")) {
    return FailUsage(command, Status::Invalid(fmt::format("name {} first", first)));
  }
  const Status read = set.ReadFlags(std::span(line.args).subspan(1));
  if (!read.ok()) return FailUsage(command, read);
  return std::nullopt;
}

int FailUsage(std::string_view command, const Status& status) {
  fmt::print(stderr, "sluice {0}: {1}\n`sluice {0} --help` tells more.\n", command,
             status.message());
  return kWrongUsage;
}

int Fail(std::string_view command, const Status& status) {
  Complain(fmt::format("sluice {}: {}\n", command, status.message()));
  return kFailed;
}

}  // namespace sluice::app
