#include "model/loader.h"

#include "model/checkpoint/model_place.h"
#include "model/models.h"

namespace sluice::model {

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

int32_t Loader::n_vocab() const {
  return std::visit([](const auto& loader) { return loader->n_vocab(); }, family_);
}

bool Loader::done() const {
  return std::visit([](const auto& loader) { return loader->done(); }, family_);
}

Status Loader::Step() {
  return std::visit([](auto& loader) { return loader->Step(); }, family_);
}

LoadedModel Loader::Take() {
  return std::visit([](auto& loader) { return loader->Take(); }, family_);
}

}  // namespace sluice::model
