// `sluice bench serve`: a server under load.

#include <fmt/format.h>

#include "app/command.h"
#include "app/signals.h"
#include "env/posix/posix_env.h"
#include "env/posix/terminal.h"
#include "load/report.h"
#include "load/runner.h"

namespace sluice::app {
namespace {

constexpr std::string_view kCommand = "bench";

constexpr std::string_view kHelp =
    "Measures a server under load, as its clients see it.\n"
    "\n"
    "usage: sluice bench serve --url http://HOST:PORT [--concurrency N | --rate R]\n"
    "                          [--requests M] [--duration TIME] ...\n"
    "\n"
    "Closed loop (--concurrency): N requests are in flight all the time. Open loop (--rate): R\n"
    "requests a second, also if the server stalls, and what waits is part of the latencies.\n"
    "Ctrl-C reports what was measured so far. Exit code 1: an answer was not right, a request was\n"
    "never sent, or nothing was answered. The key comes from --api-key or SLUICE_API_KEY.\n"
    "docs/bench.md says what the numbers mean.\n"
    "\n";

constexpr std::string_view kApiKeyVariable = "SLUICE_API_KEY";

void ShowProgress(const load::Progress& progress) {
  Complain(fmt::format("\r{:<78}", load::ProgressText(progress)));
}

// Other SLUICE_ variables may be those of a server on the same machine.
Status ReadKey(const Environment& environment, OptionSet& set) {
  Environment key;
  if (const auto found = environment.find(kApiKeyVariable); found != environment.end()) {
    key.insert(*found);
  }
  return set.ReadEnvironment(key);
}

int Measure(const load::LoadOptions& options) {
  const PosixEnv posix;
  const Env env = posix.env();
  const Result<load::Workload> workload = load::Workload::Open(env.fs, options);
  if (!workload) return FailUsage(kCommand, workload.error());
  const bool shows = StderrIsTerminal();
  const Result<std::unique_ptr<load::Runner>> runner =
      load::Runner::Open({.options = options,
                          .workload = *workload,
                          .clock = env.clock,
                          .show = shows ? &ShowProgress : nullptr});
  if (!runner) return FailUsage(kCommand, runner.error());
  BlockSignals();
  load::Results results;
  {
    const SignalThread signals(**runner);
    results = (*runner)->Run();
  }
  if (shows) Complain(fmt::format("\r{:<78}\r", ""));
  Print(options.json ? load::JsonReport(options, results) + "\n"
                     : load::TextReport(options, results));
  return results.are_right() ? kDone : kFailed;
}

}  // namespace

int BenchMain(const CommandLine& line) {
  load::LoadOptions options;
  OptionSet set;
  options.Declare(set);
  if (const auto code = ReadUsage(kCommand, line, set, kHelp, "what to measure, serve,")) {
    return *code;
  }
  if (line.args[0] != "serve") {
    return FailUsage(kCommand,
                     Status::Invalid(fmt::format("cannot measure {}, only serve", line.args[0])));
  }
  Status status = ReadKey(line.environment, set);
  if (status.ok()) status = options.Check();
  return status.ok() ? Measure(options) : FailUsage(kCommand, status);
}

}  // namespace sluice::app
