// What of a model's files concerns how it reads and writes: its tokenizer, its chat format, and the
// name that clients know it by. Owned by whoever reads it.

#pragma once

#include <string>
#include <string_view>

#include "app/app_options.h"
#include "base/result.h"
#include "codec/dialect.h"
#include "codec/format.h"
#include "env/file_system.h"

namespace sluice::app {

struct ModelFormat {
  codec::OwnedFormat format;
  std::string source;      // what was taken: a path, or "the built-in tokenizer"
  std::string model_name;  // as its GGUF file is called, "smollm2-135m-instruct"; else empty
  std::string owner;       // who made the model, as its file says; empty: it does not
};

// Of --tokenizer, a tokenizer.json, a GGUF file or a folder with one of the two, else of the model,
// else the small tokenizer that is built in. --chat-format names the format, else what the files
// say.
Result<ModelFormat> ReadFormat(FileSystem& files, const AppOptions& options);

// Puts the names of the model on its card: as the options say, else the model's own. Clients that
// are set up for the first family's names reach the model all the same.
void NameModel(const AppOptions& options, const ModelFormat& format, codec::ModelCard& card);

// "SmolLM2-135M-Instruct.Q4_1.gguf" is smollm2-135m-instruct: without folder, ending and
// quantisation.
std::string ModelNameOf(std::string_view path);

}  // namespace sluice::app
