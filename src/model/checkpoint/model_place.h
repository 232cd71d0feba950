// Where a model lies, by its path: a folder with config.json and safetensors files, a GGUF file, or
// a folder whose only model is one GGUF file.
//
// Pure but for looking at names.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "env/file_system.h"

namespace sluice::model {

struct ModelPlace {
  enum class Kind : uint8_t { kFolder, kGguf };
  Kind kind = Kind::kFolder;
  std::string path;  // of the folder, or of the file
};

// A path that ends in .gguf is a file; a folder without config.json and with exactly one .gguf file
// is that file. kInvalidArgument for a folder with several; whether anything else is a model shows
// when it is opened.
Result<ModelPlace> FindModel(FileSystem& fs, std::string_view path);

}  // namespace sluice::model
