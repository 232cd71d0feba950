// Loader: a model folder or file becomes a Model. Passive: Open looks at names and shapes only,
// then Step reads the weights, piece by piece, and brings them into the layout of kernels, so that
// whoever drives it can tell how far it is and stop.
//
// Owned by one thread.

#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <variant>

#include "base/result.h"
#include "env/file_system.h"
#include "model/deepseek_v41/family_loader.h"
#include "model/dense/family_loader.h"
#include "model/loaded_model.h"
#include "model/model.h"
#include "tensor/thread_team.h"

namespace sluice::model {

class Loader {
 public:
  // path: a folder with config.json, a .gguf file, or a folder with exactly one of those. Errors
  // name the file, the tensor or the field. An architecture that nobody implements is kUnsupported.
  static Result<Loader> Open(FileSystem& fs, std::string_view path);

  using Progress = LoadProgress;
  Progress progress() const;
  // The tokenizer has n_tokens; before Take. Rows of the head beyond them are padding, as some
  // dense models have it, and are left out. kInvalidArgument: it belongs to another model.
  Status KeepTokens(int32_t n_tokens);
  bool done() const;
  // The next piece. kCorrupt: the place and the value.
  Status Step(ThreadTeam& team);

  // Once done.
  LoadedModel Take();

 private:
  using OfFamily = std::variant<std::unique_ptr<deepseek_v41::FamilyLoader>,
                                std::unique_ptr<dense::FamilyLoader>>;
  explicit Loader(OfFamily family) : family_(std::move(family)) {}

  OfFamily family_;
};

}  // namespace sluice::model
