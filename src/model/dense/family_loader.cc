#include "model/dense/family_loader.h"

#include <fmt/format.h>

#include <span>
#include <utility>

#include "base/check.h"
#include "model/checkpoint/revision.h"
#include "model/dense/dense.h"

namespace sluice::model::dense {

Result<FamilyLoader> FamilyLoader::Open(FileSystem& fs, const ModelPlace& place) {
  FamilyLoader loader;
  SLUICE_TRY(Source source, Source::Open(fs, place));
  loader.source_ = std::make_unique<Source>(std::move(source));
  SLUICE_TRY(Weights weights, Weights::Bind(*loader.source_));
  loader.weights_ = std::make_unique<Weights>(std::move(weights));
  loader.n_vocab_ = loader.source_->config().vocab_size;
  loader.check_ = std::make_unique<ValueCheck>(*loader.source_);
  loader.packing_ = std::make_unique<Packing>(loader.weights_->ToPack());
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
    source_->Drop(packing_->Step(team));
  }
  return Status::Ok();
}

Status FamilyLoader::KeepTokens(int32_t n_tokens) {
  const int32_t eos = source_->config().eos_token_id;
  if (eos >= n_tokens) {
    return Status::Invalid(fmt::format(
        "the model's end token is {} and the tokenizer has {} tokens: it belongs to another", eos,
        n_tokens));
  }
  n_vocab_ = n_tokens;
  weights_->embedding = RowsOf(weights_->embedding, 0, n_tokens);
  weights_->head = RowsOf(weights_->head, 0, n_tokens);
  return Status::Ok();
}

std::string FamilyLoader::WeightsRevision() const {
  Revision revision;
  const std::string config = source_->config().Text();
  revision.Add(std::as_bytes(std::span(config)));
  revision.Add(std::as_bytes(std::span(check_->sum())));
  for (const StoredTensor& tensor : source_->tensors()) {
    revision.Add(std::as_bytes(std::span(tensor.name)));
    revision.Add(std::as_bytes(std::span(&tensor.matrix.format, 1)));
    revision.Add(std::as_bytes(std::span(tensor.shape)));
  }
  return revision.Hex();
}

LoadedModel FamilyLoader::Take() {
  SLUICE_CHECK(done());
  std::string weights_revision = WeightsRevision();
  check_.reset();
  Config config = source_->config();
  config.vocab_size = n_vocab_;
  return {.checkpoint = nullptr,
          .model = std::make_unique<Dense>(Dense::Params{.config = std::move(config),
                                                         .weights = std::move(*weights_),
                                                         .packed = packing_->Take(),
                                                         .source = std::move(source_)}),
          .weights_revision = std::move(weights_revision)};
}

}  // namespace sluice::model::dense
