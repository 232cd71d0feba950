#include "model/checkpoint/model_place.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "model/checkpoint/untrusted_text.h"

namespace sluice::model {
namespace {

constexpr std::string_view kConfigName = "config.json";
constexpr std::string_view kGgufSuffix = ".gguf";

}  // namespace

Result<ModelPlace> FindModel(FileSystem& fs, std::string_view path) {
  if (path.ends_with(kGgufSuffix)) {
    return ModelPlace{.kind = ModelPlace::Kind::kGguf, .path = std::string(path)};
  }
  ModelPlace folder{.kind = ModelPlace::Kind::kFolder, .path = std::string(path)};
  const Result<std::vector<std::string>> names = fs.List(path);
  if (!names || std::ranges::find(*names, kConfigName) != names->end()) return folder;
  std::vector<std::string_view> files;
  for (const std::string& name : *names) {
    if (name.ends_with(kGgufSuffix)) files.push_back(name);
  }
  if (files.empty()) return folder;
  if (files.size() > 1) {
    return Status::Invalid(fmt::format("{} has {} GGUF files, {} and {} among them; name one", path,
                                       files.size(), Quote(files[0]), Quote(files[1])));
  }
  return ModelPlace{.kind = ModelPlace::Kind::kGguf, .path = fmt::format("{}/{}", path, files[0])};
}

}  // namespace sluice::model
