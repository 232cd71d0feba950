#include "model/loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/sha256.h"
#include "model/deepseek_v41/deepseek_v41.h"
#include "model/deepseek_v41/engram_tokens.h"
#include "model/deepseek_v41/tensor_list.h"

namespace sluice::model {
namespace {

// Of a table of 98 GB that loading leaves on the disk.
constexpr size_t kPageBytes = 4096;
constexpr size_t kPagesOfATable = 64;

}  // namespace

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

// Each field with its length or of a fixed one, so that no two models give the same bytes.
std::string Loader::WeightsRevision() const {
  std::vector<std::byte> text;
  const auto add = [&text](ConstBytes field) {
    const uint64_t n_bytes = field.size();
    const ConstBytes length = std::as_bytes(std::span(&n_bytes, 1));
    text.insert(text.end(), length.begin(), length.end());
    text.insert(text.end(), field.begin(), field.end());
  };
  add(std::as_bytes(std::span(checkpoint_->config_text())));
  add(std::as_bytes(std::span(token_classes_)));
  add(std::as_bytes(std::span(check_->sum())));
  for (const Checkpoint::Tensor& tensor : checkpoint_->tensors()) {
    add(std::as_bytes(std::span(tensor.entry.name)));
    add(std::as_bytes(std::span(&tensor.entry.dtype, 1)));
    add(std::as_bytes(std::span(tensor.entry.shape)));
  }
  for (const deepseek_v41::TensorSpec& spec : deepseek_v41::ListTensors(config_)) {
    if (spec.part != deepseek_v41::Part::kEngramTables) continue;
    const ConstBytes bytes = checkpoint_->View(*checkpoint_->Find(spec.name)).bytes;
    const size_t stride = std::max(kPageBytes, bytes.size() / kPagesOfATable);
    for (size_t at = 0; at < bytes.size(); at += stride) {
      add(bytes.subspan(at, std::min(kPageBytes, bytes.size() - at)));
    }
  }
  std::string hex;
  for (const std::byte byte : Sha256(text)) hex += fmt::format("{:02x}", static_cast<int>(byte));
  return hex;
}

LoadedModel Loader::Take() {
  SLUICE_CHECK(done());
  std::string weights_revision = WeightsRevision();
  auto model = std::make_unique<deepseek_v41::DeepseekV41>(
      deepseek_v41::DeepseekV41::Params{.config = std::move(config_),
                                        .weights = std::move(weights_),
                                        .token_classes = std::move(token_classes_)});
  check_.reset();
  return {.checkpoint = std::move(checkpoint_),
          .model = std::move(model),
          .weights_revision = std::move(weights_revision)};
}

}  // namespace sluice::model
