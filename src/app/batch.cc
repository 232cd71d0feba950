// `sluice batch`: answers a file of requests, without a server.

#include <fmt/format.h>

#include <algorithm>

#include "app/batch_meter.h"
#include "app/codec_tool.h"
#include "app/command.h"
#include "app/wiring.h"
#include "base/limits.h"
#include "base/log.h"
#include "batch/index.h"
#include "batch/output.h"
#include "batch/runner.h"
#include "env/posix/event_bell.h"
#include "env/posix/posix_env.h"

namespace sluice::app {
namespace {

constexpr std::string_view kCommand = "batch";

constexpr std::string_view kHelp =
    "Answers a file of requests in the form of OpenAI's batches, without a server.\n"
    "\n"
    "usage: sluice batch MODEL IN.jsonl OUT.jsonl [--resume] [--quiet | --json]\n"
    "       sluice batch --script FILE IN.jsonl OUT.jsonl ...\n"
    "\n"
    "A line of IN is {\"custom_id\": \"a\", \"method\": \"POST\", \"url\": URL, \"body\": {}},\n"
    "where URL is /v1/chat/completions or that of another API that generates. OUT gets a line\n"
    "for each, as soon as it is answered: what the server would answer, or its error. A row that\n"
    "fails ends nothing. Whatever ended it, run it again with --resume: rows with a line are left\n"
    "alone.\n"
    "\n";

struct Options {
  bool resume = false;
  bool quiet = false;
  bool json = false;

  void Declare(OptionSet& set) {
    set.Add("resume", &resume,
            {.help = "Go on with OUT.jsonl, which was made from the same input; it is begun if it "
                     "is missing.",
             .reach = OptionReach::kFlagOnly});
    set.Add("quiet", &quiet,
            {.help = "Do not show how far it is.", .reach = OptionReach::kFlagOnly});
    set.Add("json", &json,
            {.help = "Print the counts at the end as one JSON object.",
             .reach = OptionReach::kFlagOnly});
  }
};

// Requests that the service holds at once: as many again as run are at hand when one ends.
int32_t NumRequestsMax(const AppOptions& serve) { return 2 * serve.max_running; }

// A row may be several requests, of which the last ones come on top.
int32_t NumWaitingMax(const AppOptions& serve) {
  return serve.max_running + static_cast<int32_t>(limits::kMaxChoices);
}

// Reads all of the input. `meter` shows how far that is.
Status ReadIndex(const Clock& clock, batch::Index& index, int64_t n_bytes, BatchMeter& meter) {
  while (!index.complete()) {
    SLUICE_TRY(index.ReadMore());
    meter.ShowReading(clock.Now(), index.read_bytes(), n_bytes);
  }
  meter.Clear();
  return Status::Ok();
}

struct Parts {
  const Clock& clock;
  const Options& options;
  const AppOptions& serve;
  const batch::Index& index;
  LocalService& local;
  EventBell& news;
  ReadyList& ready;
  BatchMeter& meter;
};

// Until every row has its line.
Status RunRows(const Parts& parts, batch::Output& output) {
  if (!parts.index.order().empty()) SLUICE_TRY(parts.local.Start());
  codec::PrepareContext context = parts.local.context();
  context.request_class = wire::RequestClass::kBulk;
  batch::Runner runner({.index = parts.index,
                        .service = parts.local.service(),
                        .context = context,
                        .clock = parts.clock,
                        .out = *output.file,
                        .ready = parts.ready,
                        .n_requests_max = NumRequestsMax(parts.serve),
                        .n_body_bytes_max = parts.serve.serve.max_body_bytes,
                        .request_timeout = parts.serve.serve.request_timeout,
                        .fingerprint = fmt::format("sluice-{}", kVersion)});
  const Time begin = parts.clock.Now();
  const auto progress = [&](Time now) {
    const batch::Totals& totals = runner.totals();
    return batch::Progress{.n_rows = parts.index.n_rows(),
                           .n_done = output.earlier.n_done + totals.n_done,
                           .n_failed = output.earlier.n_failed + totals.n_failed,
                           .n_new = totals.n_done,
                           .n_tokens = totals.n_generated,
                           .elapsed = now - begin};
  };
  while (!runner.done()) {
    const Time due = runner.Step(parts.clock.Now());
    const Time now = parts.clock.Now();
    parts.meter.Show(now, progress(now));
    if (!runner.done()) parts.news.Wait(std::min(due, parts.meter.due()), parts.clock);
  }
  parts.meter.Clear();
  SLUICE_TRY(runner.failure());
  const batch::Progress end = progress(parts.clock.Now());
  Print(parts.options.json ? batch::EndJson(end, runner.totals())
                           : batch::EndText(end, runner.totals()));
  return Status::Ok();
}

Status Batch(const Env& env,
             const Options& options,
             const AppOptions& serve,
             std::span<const std::string> paths) {
  SLUICE_TRY(const MappedFile input, env.fs.Map(paths[0]));
  SLUICE_TRY(batch::Output output, batch::OpenOutput(env.fs, paths[1], options.resume));
  EventBell news;
  ReadyList ready(news.bell());  // outlives the service, which may ring it to its end
  SLUICE_TRY(auto local, LocalService::Open(env, serve, NumWaitingMax(serve)));
  BatchMeter meter(options.quiet);
  batch::Index index(input.text(), local->without_script(), std::move(output.earlier.done));
  Status read = ReadIndex(env.clock, index, std::ssize(input.text()), meter);
  if (!read.ok()) return std::move(read.AddContext(paths[0]));
  SLUICE_TRY(batch::BeginOutput(env.fs, paths[1], index.batch_id(), output));
  return RunRows({.clock = env.clock,
                  .options = options,
                  .serve = serve,
                  .index = index,
                  .local = *local,
                  .news = news,
                  .ready = ready,
                  .meter = meter},
                 output);
}

}  // namespace

int BatchMain(const CommandLine& line) {
  const PosixEnv posix;
  Options options;
  AppOptions serve;
  serve.strict_determinism = true;  // what a run computes does not depend on where another ended
  OptionSet set;
  options.Declare(set);
  std::vector<std::string> paths;
  const ToolUsage usage{.command = kCommand, .help = kHelp, .line = line, .files = posix.env().fs};
  if (const auto code = ReadToolUsage(usage, set, serve, paths)) return *code;
  if (serve.model.empty() && paths.size() == 3) {
    serve.model = paths[0];
    paths.erase(paths.begin());
    if (Status status = serve.FindModel(posix.env().fs); !status.ok()) {
      return FailUsage(kCommand, status);
    }
  }
  if (paths.size() != 2 || !serve.CheckAnswers().ok()) {
    return FailUsage(kCommand, Status::Invalid("name MODEL or --script FILE, then IN.jsonl and "
                                               "OUT.jsonl"));
  }
  if (Status status = serve.Check(); !status.ok()) return FailUsage(kCommand, status);
  if (options.quiet) serve.log.level = std::max(serve.log.level, LogLevel::kWarn);
  if (Status status = InitLog(serve.log); !status.ok()) return Fail(kCommand, status);
  const Status status = Batch(posix.env(), options, serve, paths);
  FlushLog();
  return status.ok() ? kDone : Fail(kCommand, status);
}

}  // namespace sluice::app
