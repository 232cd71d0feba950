#include "model/deepseek_v41/family_loader.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/check.h"
#include "model/checkpoint/revision.h"
#include "model/deepseek_v41/deepseek_v41.h"
#include "model/deepseek_v41/engram_tokens.h"
#include "model/deepseek_v41/tensor_list.h"

namespace sluice::model::deepseek_v41 {
namespace {

// Of a table of 98 GB that loading leaves on the disk.
constexpr size_t kPageBytes = 4096;
constexpr size_t kPagesOfATable = 64;

}  // namespace

Result<FamilyLoader> FamilyLoader::Open(FileSystem& fs, const ModelPlace& place) {
  FamilyLoader loader;
  SLUICE_TRY(Checkpoint checkpoint, Checkpoint::Open(fs, place.path));
  loader.checkpoint_ = std::make_unique<Checkpoint>(std::move(checkpoint));
  SLUICE_TRY(loader.config_, Config::Parse(loader.checkpoint_->config_text()));
  SLUICE_TRY(CheckEngramRows(loader.config_));
  SLUICE_TRY(Weights weights, Weights::Bind(*loader.checkpoint_, loader.config_));
  loader.weights_ = std::make_unique<Weights>(std::move(weights));
  SLUICE_TRY(loader.token_classes_, LoadTokenClasses(fs, place.path, loader.config_));
  loader.check_ = std::make_unique<ValueCheck>(*loader.checkpoint_, loader.config_);
  loader.packing_ = std::make_unique<Packing>(loader.weights_->ToPack(loader.config_));
  return loader;
}

LoadProgress FamilyLoader::progress() const {
  return {.done_bytes = check_->done_bytes() + packing_->done_bytes(),
          .total_bytes = check_->total_bytes() + packing_->total_bytes(),
          .file = check_->file()};
}

Status FamilyLoader::Step(ThreadTeam& team) {
  if (!check_->done()) return check_->Step();
  const int64_t end = packing_->done_bytes() + kPackingPieceBytes;
  while (!packing_->done() && packing_->done_bytes() < end) {
    checkpoint_->Drop(packing_->Step(team));
  }
  return Status::Ok();
}

std::string FamilyLoader::WeightsRevision() const {
  Revision revision;
  revision.Add(std::as_bytes(std::span(checkpoint_->config_text())));
  revision.Add(std::as_bytes(std::span(token_classes_)));
  revision.Add(std::as_bytes(std::span(check_->sum())));
  for (const Checkpoint::Tensor& tensor : checkpoint_->tensors()) {
    revision.Add(std::as_bytes(std::span(tensor.entry.name)));
    revision.Add(std::as_bytes(std::span(&tensor.entry.dtype, 1)));
    revision.Add(std::as_bytes(std::span(tensor.entry.shape)));
  }
  for (const TensorSpec& spec : ListTensors(config_)) {
    if (spec.part != Part::kEngramTables) continue;
    const ConstBytes bytes = checkpoint_->View(*checkpoint_->Find(spec.name)).bytes;
    const size_t stride = std::max(kPageBytes, bytes.size() / kPagesOfATable);
    for (size_t at = 0; at < bytes.size(); at += stride) {
      revision.Add(bytes.subspan(at, std::min(kPageBytes, bytes.size() - at)));
    }
  }
  return revision.Hex();
}

LoadedModel FamilyLoader::Take() {
  SLUICE_CHECK(done());
  std::string weights_revision = WeightsRevision();
  auto model = std::make_unique<DeepseekV41>(
      DeepseekV41::Params{.config = std::move(config_),
                          .weights = std::move(*weights_),
                          .packed = packing_->Take(),
                          .token_classes = std::move(token_classes_)});
  check_.reset();
  return {.checkpoint = std::move(checkpoint_),
          .model = std::move(model),
          .weights_revision = std::move(weights_revision)};
}

}  // namespace sluice::model::deepseek_v41
