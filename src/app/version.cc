// `sluice version`.

#include <fmt/format.h>

#include "app/command.h"

namespace sluice::app {

int VersionMain(const CommandLine& line) {
  if (AsksForHelp(line)) {
    Print("Prints the version.\n\nusage: sluice version\n");
    return kDone;
  }
  if (!line.args.empty()) return FailUsage("version", Status::Invalid("takes no arguments"));
  Print(fmt::format("sluice {}\n", kVersion));
  return kDone;
}

}  // namespace sluice::app
