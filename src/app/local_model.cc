#include "app/local_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "app/load_line.h"
#include "base/json.h"
#include "base/limits.h"
#include "model/checkpoint/untrusted_text.h"

namespace sluice::app {
namespace {

Status LoadWithProgress(model::Loader& loader, ThreadTeam& team, const Clock& clock) {
  const Time begin = clock.Now();
  LoadLine line;
  while (!loader.done()) {
    SLUICE_TRY(loader.Step(team));
    const model::Loader::Progress progress = loader.progress();
    line.Show({.done_bytes = progress.done_bytes,
               .total_bytes = progress.total_bytes,
               .elapsed = clock.Now() - begin,
               .file = std::string(progress.file)});
  }
  line.Clear();
  return Status::Ok();
}

}  // namespace

Result<std::unique_ptr<LocalModel>> LocalModel::Open(Env& env,
                                                     std::string_view folder,
                                                     const ComputeOptions& options,
                                                     std::optional<int32_t> n_tokens) {
  SLUICE_TRY(IsaChoice isas, options.Isas());
  SLUICE_TRY(model::Loader loader, model::Loader::Open(env.fs, folder));
  if (n_tokens) {
    SLUICE_TRY(loader.KeepTokens(*n_tokens));
  }
  ThreadTeam team(options.NumThreads());
  SLUICE_TRY(LoadWithProgress(loader, team, env.clock));
  return std::unique_ptr<LocalModel>(
      new LocalModel(loader.Take(), options, std::move(isas)));  // tidy: allow, private
}

LocalModel::LocalModel(model::LoadedModel loaded, const ComputeOptions& options, IsaChoice isas)
    : loaded_(std::move(loaded)),
      team_(options.NumThreads()),
      stream_{.team = team_, .arithmetic = options.arithmetic, .isas = std::move(isas)} {}

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
                      path, tokens.size(), model::Shorten(element.ToText()), n_vocab - 1));
    }
    tokens.emplace_back(static_cast<int32_t>(element.AsInt64()));
  }
  return tokens;
}

}  // namespace sluice::app
