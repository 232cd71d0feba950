// What a subcommand gets and answers. Each one is a file of this folder and a line of the table in
// main.cc.

#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/options.h"
#include "base/status.h"

namespace sluice::app {

inline constexpr std::string_view kVersion = SLUICE_VERSION;

struct CommandLine {
  std::vector<std::string> args;  // after the subcommand
  Environment environment;        // SLUICE_*, HOME and XDG_CACHE_HOME
};

enum ExitCode : int { kDone = 0, kFailed = 1, kWrongUsage = 2 };

int ServeMain(const CommandLine& line);
int ConfigMain(const CommandLine& line);
int TokenizeMain(const CommandLine& line);
int RenderMain(const CommandLine& line);
int DecodeMain(const CommandLine& line);
int BatchMain(const CommandLine& line);
int ChatMain(const CommandLine& line);
int GenerateMain(const CommandLine& line);
int LogitsMain(const CommandLine& line);
int DoctorMain(const CommandLine& line);
int InspectMain(const CommandLine& line);
int MakeModelMain(const CommandLine& line);
int PullMain(const CommandLine& line);
int BenchMain(const CommandLine& line);
int VersionMain(const CommandLine& line);

// Whether --help or -h stands anywhere, for commands whose help is one text.
bool AsksForHelp(const CommandLine& line);

// Reads `sluice COMMAND FIRST --flag ...`: flags into `set`; the caller takes FIRST, line.args[0].
// An exit code ends the command: help was asked for and printed, or the usage was wrong. `first`
// names what is missing: "the MODEL folder".
std::optional<int> ReadUsage(std::string_view command,
                             const CommandLine& line,
                             OptionSet& set,
                             std::string_view help,
                             std::string_view first);

// To stderr: "sluice serve: message", and where help is.
int FailUsage(std::string_view command, const Status& status);
// To stderr, for what went wrong although the usage was right.
int Fail(std::string_view command, const Status& status);

// To stdout at once, so that whoever waits for a line gets it.
void Print(std::string_view text);
// To stderr. Neither can fail: a closed stream is the business of whoever closed it.
void Complain(std::string_view text);

}  // namespace sluice::app
