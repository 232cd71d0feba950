// Any TOML text, environment and arguments: no crash, and what was accepted prints as a file that
// is accepted again. The input is cut at its first two zero bytes: file, environment lines
// (NAME=value), one argument a line.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/options.h"
#include "base/options_sample.h"

namespace sluice {
namespace {

std::string_view Take(std::string_view& rest, char end) {
  const std::string_view part = rest.substr(0, rest.find(end));
  rest.remove_prefix(std::min(part.size() + 1, rest.size()));
  return part;
}

}  // namespace
}  // namespace sluice

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sluice;
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  const std::string_view file = Take(rest, '\0');
  std::string_view variables = Take(rest, '\0');
  Environment environment;
  while (!variables.empty()) {
    std::string_view line = Take(variables, '\n');
    const std::string name(Take(line, '='));
    environment[name] = std::string(line);
  }
  std::vector<std::string> args;
  while (!rest.empty()) args.emplace_back(Take(rest, '\n'));

  OptionSample sample;
  // Whatever is refused, what was set before it stays and must print well.
  const Status from_file = sample.set.ReadFile(file, "fuzz.toml");
  const Status from_environment = sample.set.ReadEnvironment(environment);
  const Status from_flags = sample.set.ReadFlags(args);
  for (const Status* status : {&from_file, &from_environment, &from_flags}) {
    SLUICE_CHECK(status->ok() || !status->message().empty());
  }
  OptionSample again;
  const std::string printed = sample.set.PrintConfig();
  SLUICE_CHECK(again.set.ReadFile(printed, "printed.toml").ok());
  SLUICE_CHECK(again.host == sample.host && again.port == sample.port);
  SLUICE_CHECK(again.context == sample.context && again.share == sample.share &&
               again.body == sample.body);
  SLUICE_CHECK(again.idle == sample.idle && again.color == sample.color);
  SLUICE_CHECK(again.strict == sample.strict && again.coalesce == sample.coalesce);
  SLUICE_CHECK(again.aliases == sample.aliases);
  return 0;
}
