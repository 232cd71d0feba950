// `sluice version`.

#include <fmt/format.h>

#include "app/command.h"

namespace sluice::app {

int VersionMain(const CommandLine& line) {
  if (!line.args.empty()) return FailUsage("version", Status::Invalid("takes no arguments"));
  Print(fmt::format("sluice {}\n", kVersion));
  return kDone;
}

}  // namespace sluice::app
