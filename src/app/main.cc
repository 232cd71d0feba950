// sluice: one binary, one table of subcommands.

#include <fmt/format.h>

#include <string>
#include <vector>

#include "app/command.h"

extern char** environ;

namespace sluice::app {
namespace {

struct Command {
  std::string_view name;
  std::string_view sentence;
  int (*run)(const CommandLine& line);
};

constexpr Command kCommands[] = {
    {"pull", "Fetch a model.", &PullMain},
    {"serve", "Serve the HTTP API.", &ServeMain},
    {"config", "Check a config file; print all options.", &ConfigMain},
    {"batch", "Answer a file of requests without a server.", &BatchMain},
    {"chat", "Talk to a model in the terminal.", &ChatMain},
    {"tokenize", "Show the tokens of a text.", &TokenizeMain},
    {"render", "Show the prompt that a request becomes.", &RenderMain},
    {"decode", "Show the answer that a model's output becomes.", &DecodeMain},
    {"generate", "Go on from a prompt without a server.", &GenerateMain},
    {"logits", "Write the logits of a prompt to a file.", &LogitsMain},
    {"doctor", "Print every limit; print the way of a token.", &DoctorMain},
    {"inspect", "Say what a model folder holds and what it needs.", &InspectMain},
    {"bench", "Measure a server under load.", &BenchMain},
    {"make-model", "Write a model folder with random weights.", &MakeModelMain},
    {"version", "Print the version.", &VersionMain},
};

std::string Help() {
  std::string text =
      "sluice serves DeepSeek-V4.1-Flash: HTTP in, tokens out.\n"
      "\n"
      "usage: sluice COMMAND [--flag value ...]\n"
      "\n";
  for (const Command& command : kCommands)
    text += fmt::format("  {:<12}{}\n", command.name, command.sentence);
  return text + "\n`sluice COMMAND --help` tells more.\n";
}

// The only place that reads the environment.
Environment Variables() {
  Environment variables;
  for (char** at = environ; *at != nullptr; ++at) {
    const std::string_view line = *at;
    const size_t equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view name = line.substr(0, equals);
    if (!name.starts_with("SLUICE_") && name != "HOME" && name != "XDG_CACHE_HOME") continue;
    variables[std::string(name)] = line.substr(equals + 1);
  }
  return variables;
}

int Main(std::vector<std::string> args) {
  if (args.empty()) {
    Complain(Help());
    return kWrongUsage;
  }
  const std::string name = args.front() == "--version" ? "version" : args.front();
  if (name == "--help" || name == "-h" || name == "help") {
    Print(Help());
    return kDone;
  }
  args.erase(args.begin());
  std::vector<std::string_view> known;
  for (const Command& command : kCommands) {
    if (command.name == name)
      return command.run({.args = std::move(args), .environment = Variables()});
    known.push_back(command.name);
  }
  Complain(
      fmt::format("sluice: unknown command {}; did you mean {}?\n`sluice --help` tells more.\n",
                  name, NearestName(name, known)));
  return kWrongUsage;
}

}  // namespace
}  // namespace sluice::app

int main(int argc, char** argv) {
  return sluice::app::Main(std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc));
}
