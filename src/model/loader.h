// Loader: a model folder becomes a Model. Passive: Open looks at names and shapes only, then Step
// reads the weights once, piece by piece, so that whoever drives it can tell how far it is and
// stop.
//
// Owned by one thread.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "env/file_system.h"
#include "model/checkpoint/checkpoint.h"
#include "model/deepseek_v41/config.h"
#include "model/deepseek_v41/weights.h"
#include "model/model.h"

namespace sluice::model {

struct LoadedModel {
  std::unique_ptr<Checkpoint> checkpoint;  // the model's weights are views into it
  std::unique_ptr<Model> model;
  // Digest, in hexadecimal digits, of what rows depend on: config, token classes, names and shapes
  // of the tensors and all values that were read. Of Engram tables, which loading does not read: a
  // few pages of each, evenly spread.
  std::string weights_revision = {};
};

class Loader {
 public:
  // Errors name the file, the tensor or the field. An architecture that nobody implements is
  // kUnsupported.
  static Result<Loader> Open(FileSystem& fs, std::string_view folder);

  struct Progress {
    int64_t done_bytes = 0;
    int64_t total_bytes = 0;
    std::string_view file;  // being read
  };
  Progress progress() const;
  int32_t n_vocab() const { return config_.vocab_size; }
  bool done() const { return check_->done(); }
  // The next piece. kCorrupt: the place and the value.
  Status Step() { return check_->Step(); }

  // Once done.
  LoadedModel Take();

 private:
  Loader() = default;
  std::string WeightsRevision() const;

  std::unique_ptr<Checkpoint> checkpoint_;
  deepseek_v41::Config config_;
  deepseek_v41::Weights weights_;
  std::vector<int32_t> token_classes_;
  std::optional<deepseek_v41::ValueCheck> check_;
};

}  // namespace sluice::model
