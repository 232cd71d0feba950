#include "app/local_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "app/command.h"
#include "base/json.h"
#include "base/limits.h"

namespace sluice::app {
namespace {

constexpr std::string_view kArithmetics[] = {"float32", "exact"};
// How often the progress line is renewed.
constexpr Duration kProgressPeriod = Duration::Millis(200);

std::string ProgressLine(const model::Loader::Progress& progress, Duration spent) {
  const double share = progress.total_bytes == 0 ? 1.0
                                                 : static_cast<double>(progress.done_bytes) /
                                                       static_cast<double>(progress.total_bytes);
  const double rate = static_cast<double>(progress.done_bytes) / std::max(spent.seconds(), 1e-9);
  const double left =
      rate > 0 ? static_cast<double>(progress.total_bytes - progress.done_bytes) / rate : 0;
  return fmt::format("reading weights: {:3.0f} %, {:.2f} GB/s, {:.0f} s left, {}", share * 100,
                     rate / 1e9, left, progress.file);
}

// One line that is written over, and only when loading takes long enough to be noticed.
Status LoadWithProgress(model::Loader& loader, const Clock& clock) {
  const Time begin = clock.Now();
  Time told = begin;
  bool has_told = false;
  while (!loader.done()) {
    SLUICE_TRY(loader.Step());
    const Time now = clock.Now();
    if (now - told < kProgressPeriod) continue;
    told = now;
    has_told = true;
    Complain(fmt::format("\r{:<78}", ProgressLine(loader.progress(), now - begin)));
  }
  if (has_told) Complain(fmt::format("\r{:<78}\r", ""));
  return Status::Ok();
}

int32_t NumThreads(int32_t asked) {
  if (asked > 0) return asked;
  return std::max(1, static_cast<int32_t>(std::thread::hardware_concurrency()));
}

}  // namespace

void LocalModelOptions::Declare(OptionSet& set) {
  set.Add("threads", &n_threads, {.min = 0, .max = 1024},
          {.help = "Threads that compute; 0: one per core. They change no result.",
           .reach = OptionReach::kFlagOnly});
  set.AddChoice("arithmetic", &arithmetic, kArithmetics,
                {.help = "exact: sums in double precision, as the golden values were made; slow.",
                 .reach = OptionReach::kFlagOnly});
}

Result<std::unique_ptr<LocalModel>> LocalModel::Open(Env& env,
                                                     std::string_view folder,
                                                     const LocalModelOptions& options) {
  SLUICE_TRY(model::Loader loader, model::Loader::Open(env.fs, folder));
  SLUICE_TRY(LoadWithProgress(loader, env.clock));
  return std::unique_ptr<LocalModel>(
      new LocalModel(loader.Take(), options));  // tidy: allow, private
}

LocalModel::LocalModel(model::LoadedModel loaded, const LocalModelOptions& options)
    : loaded_(std::move(loaded)),
      team_(NumThreads(options.n_threads)),
      stream_{.team = team_, .arithmetic = options.arithmetic} {}

Result<std::vector<float>> RunChunk(model::Sequences& sequences,
                                    std::span<const TokenId>& rest,
                                    int32_t n_logits) {
  const auto n = static_cast<int32_t>(std::min(std::ssize(rest), std::ptrdiff_t{kChunkTokens}));
  const auto n_behind = static_cast<int32_t>(rest.size()) - n;
  const model::Sequences::Part part{.tokens = rest.first(static_cast<size_t>(n)),
                                    .n_logits = std::clamp(n_logits - n_behind, 0, n)};
  SLUICE_TRY(model::Sequences::Outputs out, sequences.Run({&part, 1}));
  rest = rest.subspan(static_cast<size_t>(n));
  return std::move(out.logits);
}

Result<std::vector<TokenId>> ReadTokenFile(FileSystem& fs, std::string_view path, int32_t n_vocab) {
  SLUICE_TRY(std::string text, fs.ReadWhole(path, limits::kMaxTokenFileBytes));
  Result<Json> json = Json::Parse(text);
  if (!json) return std::move(json.error().AddContext(path));
  const JsonValue list = json->root();
  if (!list.is_array() || list.size() == 0) {
    return Status::Invalid(fmt::format("{}: a JSON list of token ids is wanted", path));
  }
  std::vector<TokenId> tokens;
  for (JsonValue element : list.elements()) {
    const bool is_id =
        element.is(JsonKind::kInt) && element.AsInt64() >= 0 && element.AsInt64() < n_vocab;
    if (!is_id) {
      return Status::Invalid(
          fmt::format("{}: element {} is {}; token ids of this model are whole "
                      "numbers from 0 to {}",
                      path, tokens.size(), element.ToText().substr(0, 40), n_vocab - 1));
    }
    tokens.emplace_back(static_cast<int32_t>(element.AsInt64()));
  }
  return tokens;
}

}  // namespace sluice::app
