// LoadedModel: what loading ends with. Plain value.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "model/checkpoint/checkpoint.h"
#include "model/model.h"

namespace sluice::model {

struct LoadedModel {
  // The model's weights are views into it; null where the model has its files itself.
  std::unique_ptr<Checkpoint> checkpoint;
  std::unique_ptr<Model> model;
  // Digest, in hexadecimal digits, of what rows depend on: config, names and shapes of the tensors,
  // all values that were read, and what else a family reads.
  std::string weights_revision = {};
};

struct LoadProgress {
  int64_t done_bytes = 0;
  int64_t total_bytes = 0;
  std::string_view file;  // being read
};

}  // namespace sluice::model
