#include "model/loader.h"

#include <fmt/format.h>

#include "model/checkpoint/model_place.h"
#include "model/models.h"

namespace sluice::model {
namespace {

// Heads are made a little larger than the vocabulary so that they can be cut into equal parts:
// 271 tokens in Qwen2.5. More is the head of another tokenizer.
constexpr int32_t kMaxPaddingTokens = 1024;

}  // namespace

Result<Loader> Loader::Open(FileSystem& fs, std::string_view path) {
  SLUICE_TRY(const ModelPlace place, FindModel(fs, path));
  SLUICE_TRY(const Family family, FamilyOf(fs, place));
  if (family == Family::kDense) {
    SLUICE_TRY(dense::FamilyLoader loader, dense::FamilyLoader::Open(fs, place));
    return Loader(std::make_unique<dense::FamilyLoader>(std::move(loader)));
  }
  SLUICE_TRY(deepseek_v41::FamilyLoader loader, deepseek_v41::FamilyLoader::Open(fs, place));
  return Loader(std::make_unique<deepseek_v41::FamilyLoader>(std::move(loader)));
}

Loader::Progress Loader::progress() const {
  return std::visit([](const auto& loader) { return loader->progress(); }, family_);
}

Status Loader::KeepTokens(int32_t n_tokens) {
  const int32_t n_vocab = std::visit([](const auto& loader) { return loader->n_vocab(); }, family_);
  if (n_tokens == n_vocab) return Status::Ok();
  const auto* const dense = std::get_if<std::unique_ptr<dense::FamilyLoader>>(&family_);
  const int32_t n_padding = n_vocab - n_tokens;
  if (dense == nullptr || n_padding < 0 || n_padding > kMaxPaddingTokens) {
    return Status::Invalid(fmt::format(
        "the tokenizer has {} tokens and the model {}: it belongs to another", n_tokens, n_vocab));
  }
  return (*dense)->KeepTokens(n_tokens);
}

bool Loader::done() const {
  return std::visit([](const auto& loader) { return loader->done(); }, family_);
}

Status Loader::Step(ThreadTeam& team) {
  return std::visit([&](auto& loader) { return loader->Step(team); }, family_);
}

LoadedModel Loader::Take() {
  return std::visit([](auto& loader) { return loader->Take(); }, family_);
}

}  // namespace sluice::model
