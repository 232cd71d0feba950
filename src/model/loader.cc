#include "model/loader.h"

#include <utility>

#include "base/check.h"
#include "model/deepseek_v41/deepseek_v41.h"
#include "model/deepseek_v41/engram_tokens.h"

namespace sluice::model {

// The only family so far; Config::Parse refuses any other model_type by name.
Result<Loader> Loader::Open(FileSystem& fs, std::string_view folder) {
  Loader loader;
  SLUICE_TRY(Checkpoint checkpoint, Checkpoint::Open(fs, folder));
  loader.checkpoint_ = std::make_unique<Checkpoint>(std::move(checkpoint));
  SLUICE_TRY(loader.config_, deepseek_v41::Config::Parse(loader.checkpoint_->config_text()));
  SLUICE_TRY(deepseek_v41::CheckEngramRows(loader.config_));
  SLUICE_TRY(loader.weights_, deepseek_v41::Weights::Bind(*loader.checkpoint_, loader.config_));
  SLUICE_TRY(loader.token_classes_, deepseek_v41::LoadTokenClasses(fs, folder, loader.config_));
  loader.check_.emplace(*loader.checkpoint_, loader.config_);
  return loader;
}

Loader::Progress Loader::progress() const {
  return {.done_bytes = check_->done_bytes(),
          .total_bytes = check_->total_bytes(),
          .file = check_->file()};
}

LoadedModel Loader::Take() {
  SLUICE_CHECK(done());
  auto model = std::make_unique<deepseek_v41::DeepseekV41>(
      deepseek_v41::DeepseekV41::Params{.config = std::move(config_),
                                        .weights = std::move(weights_),
                                        .token_classes = std::move(token_classes_)});
  check_.reset();
  return {.checkpoint = std::move(checkpoint_), .model = std::move(model)};
}

}  // namespace sluice::model
