// `sluice make-model`: writes the folder of a random model, for tests and for measuring.

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "app/command.h"
#include "base/limits.h"
#include "env/posix/posix_env.h"
#include "model/deepseek_v41/preset_tokens.h"
#include "model/deepseek_v41/presets.h"
#include "model/deepseek_v41/random_checkpoint.h"

namespace sluice::app {
namespace {

namespace v41 = model::deepseek_v41;

constexpr std::string_view kCommand = "make-model";
// How often the progress line is renewed.
constexpr Duration kProgressPeriod = Duration::Millis(200);

struct Options {
  int64_t seed = 0;
  std::string out;
  std::string tokenizer;
  int32_t n_threads = 0;

  void Declare(OptionSet& set) {
    set.Add("seed", &seed, {},
            {.help = "Decides every weight: equal seeds give equal files.",
             .reach = OptionReach::kFlagOnly});
    set.Add("out", &out,
            {.help = "The folder to write; a new one or an empty one.",
             .value = "DIR",
             .reach = OptionReach::kFlagOnly});
    set.Add("tokenizer", &tokenizer,
            {.help = "The released tokenizer.json, for presets with a tokenizer.",
             .value = "FILE",
             .reach = OptionReach::kFlagOnly});
    set.Add("threads", &n_threads, {.max = 1024},
            {.help = "Threads that compute; 0: one per core. They change no byte.",
             .reach = OptionReach::kFlagOnly});
  }
};

std::string Help(const OptionSet& set) {
  std::string text =
      "Writes a model folder with random weights, in the layout of the released model.\n"
      "\n"
      "usage: sluice make-model PRESET --out DIR [--seed N] [--tokenizer FILE] [--threads N]\n"
      "\n"
      "presets\n";
  for (const v41::Preset& preset : v41::Presets()) {
    text += fmt::format("  {:<10}{}\n", preset.name, preset.sentence);
  }
  text +=
      "\n"
      "FILE is needed by presets with a tokenizer: tokenizer.json of the repository\n"
      "deepseek-ai/DeepSeek-V4.1-Flash on Hugging Face.\n"
      "\n";
  return text + set.Help();
}

Status RefuseUnknown(std::string_view name) {
  std::vector<std::string_view> known;
  for (const v41::Preset& preset : v41::Presets()) known.push_back(preset.name);
  return Status::Invalid(
      fmt::format("there is no preset {}; there are {}", name, fmt::join(known, ", ")));
}

Result<std::vector<v41::SideFile>> ReadTokenFiles(FileSystem& fs,
                                                  const v41::Preset& preset,
                                                  const std::string& path) {
  std::string released;
  if (preset.tokenizer != v41::PresetTokenizer::kNone) {
    if (path.empty()) {
      return Status::Invalid(fmt::format(
          "{} has a tokenizer, which is made from the released one: get tokenizer.json from the "
          "repository deepseek-ai/DeepSeek-V4.1-Flash on Hugging Face and name it with --tokenizer",
          preset.name));
    }
    SLUICE_TRY(released, fs.ReadWhole(path, limits::kMaxTokenMapBytes));
  }
  Result<std::vector<v41::SideFile>> files = v41::TokenFiles(preset, released);
  if (!files) files.error().AddContext(path);
  return files;
}

std::string ProgressLine(const v41::RandomCheckpoint& writer, Duration spent) {
  const auto done = static_cast<double>(writer.done_bytes());
  return fmt::format("writing: {:3.0f} %, {:.0f} MB/s",
                     100 * done / static_cast<double>(writer.total_bytes()),
                     done / std::max(spent.seconds(), 1e-9) / 1e6);
}

// One line that is written over.
Status WriteWithProgress(v41::RandomCheckpoint& writer, const Clock& clock) {
  const Time begin = clock.Now();
  Time told = begin;
  Complain("writing:   0 %");
  while (!writer.done()) {
    const Status status = writer.Step();
    if (!status.ok()) {
      Complain("\n");
      return status;
    }
    const Time now = clock.Now();
    if (now - told < kProgressPeriod && !writer.done()) continue;
    told = now;
    Complain(fmt::format("\r{:<40}", ProgressLine(writer, now - begin)));
  }
  Complain("\n");
  return Status::Ok();
}

Status MakeModel(const v41::Preset& preset, const Options& options) {
  const PosixEnv posix;
  FileSystem& fs = posix.env().fs;
  SLUICE_TRY(std::vector<v41::SideFile> side_files, ReadTokenFiles(fs, preset, options.tokenizer));
  const auto n_cores = static_cast<int32_t>(std::thread::hardware_concurrency());
  v41::RandomCheckpoint writer(
      fs, {.config = preset.config,
           .source = {.seed = static_cast<uint64_t>(options.seed), .query_gain = preset.query_gain},
           .folder = options.out,
           .side_files = std::move(side_files),
           .n_threads = options.n_threads > 0 ? options.n_threads : std::max(1, n_cores)});
  SLUICE_TRY(writer.Begin());
  Status status = WriteWithProgress(writer, posix.env().clock);
  if (!status.ok()) {
    return status.AddContext(fmt::format("{} is incomplete; remove it", options.out));
  }
  Print(fmt::format("{}: {} tensors, {} bytes in {} files\n", options.out, writer.n_tensors(),
                    writer.total_bytes(), writer.n_files()));
  return status;
}

}  // namespace

int MakeModelMain(const CommandLine& line) {
  Options options;
  OptionSet set;
  options.Declare(set);
  if (AsksForHelp(line)) {
    Print(Help(set));
    return kDone;
  }
  if (line.args.empty() || line.args[0].starts_with("-")) {
    return FailUsage(kCommand, Status::Invalid("name the preset first"));
  }
  const v41::Preset* preset = v41::FindPreset(line.args[0]);
  if (preset == nullptr) return FailUsage(kCommand, RefuseUnknown(line.args[0]));
  const Status read = set.ReadFlags(std::span(line.args).subspan(1));
  if (!read.ok()) return FailUsage(kCommand, read);
  if (options.out.empty()) return FailUsage(kCommand, Status::Invalid("--out is missing"));
  const Status status = MakeModel(*preset, options);
  return status.ok() ? kDone : Fail(kCommand, status);
}

}  // namespace sluice::app
