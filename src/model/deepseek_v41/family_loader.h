// FamilyLoader: the part of model/loader.h that belongs to DeepSeek-V4.1. Owned by one thread.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "env/file_system.h"
#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/model_place.h"
#include "model/checkpoint/packing.h"
#include "model/deepseek_v41/config.h"
#include "model/deepseek_v41/weights.h"
#include "model/loaded_model.h"
#include "tensor/thread_team.h"

namespace sluice::model::deepseek_v41 {

class FamilyLoader {
 public:
  static Result<FamilyLoader> Open(FileSystem& fs, const ModelPlace& place);

  LoadProgress progress() const;
  int32_t n_vocab() const { return config_.vocab_size; }
  bool done() const { return check_->done() && packing_->done(); }
  Status Step(ThreadTeam& team);
  LoadedModel Take();

 private:
  FamilyLoader() = default;
  // Of token classes, too. Of Engram tables, which loading does not read, it covers a few pages of
  // each, evenly spread.
  std::string WeightsRevision() const;

  std::unique_ptr<Checkpoint> checkpoint_;
  Config config_;
  std::unique_ptr<Weights> weights_;  // stays where it is, because packing replaces parts of it
  std::vector<int32_t> token_classes_;
  std::unique_ptr<ValueCheck> check_;  // null once taken
  std::unique_ptr<Packing> packing_;   // null once taken
};

}  // namespace sluice::model::deepseek_v41
