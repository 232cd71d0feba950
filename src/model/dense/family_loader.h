// FamilyLoader: the part of model/loader.h that belongs to dense models. Owned by one thread.

#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "env/file_system.h"
#include "model/checkpoint/model_place.h"
#include "model/checkpoint/packing.h"
#include "model/dense/source.h"
#include "model/dense/weights.h"
#include "model/loaded_model.h"
#include "tensor/thread_team.h"

namespace sluice::model::dense {

class FamilyLoader {
 public:
  static Result<FamilyLoader> Open(FileSystem& fs, const ModelPlace& place);

  LoadProgress progress() const;
  int32_t n_vocab() const { return n_vocab_; }
  // The first n_tokens rows of embedding and head are all that the model has; before Take.
  Status KeepTokens(int32_t n_tokens);
  bool done() const { return check_->done() && packing_->done(); }
  Status Step(ThreadTeam& team);
  LoadedModel Take();

 private:
  FamilyLoader() = default;
  std::string WeightsRevision() const;

  std::unique_ptr<Source> source_;
  std::unique_ptr<Weights> weights_;  // stays where it is, because packing replaces parts of it
  int32_t n_vocab_ = 0;
  std::unique_ptr<ValueCheck> check_;  // null once taken
  std::unique_ptr<Packing> packing_;   // null once taken
};

}  // namespace sluice::model::dense
