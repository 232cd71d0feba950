// Whatever a file begins with: no crash, and what is accepted keeps the promises of gguf.h: values
// and tensors lie inside the file, tensors share no byte, and every getter gives a value or an
// error.

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"
#include "model/checkpoint/gguf.h"
#include "tensor/block_format.h"

namespace {

using namespace sluice;

template <typename T>
void CheckMessage(const Result<T>& result) {
  SLUICE_CHECK(result ||
               (!result.error().message().empty() && result.error().message().size() < 1'000));
}

// Reads the first and the last byte, which a sanitizer watches.
void Touch(std::string_view text) {
  if (text.empty()) return;
  [[maybe_unused]] volatile char byte = text.front();
  byte = text.back();
}

void AskFor(const model::GgufFile& file, std::string_view key) {
  const Result<std::string_view> text = file.String(key);
  CheckMessage(text);
  if (text) Touch(*text);
  const Result<std::vector<std::string_view>> texts = file.Strings(key);
  CheckMessage(texts);
  if (texts) std::ranges::for_each(*texts, Touch);
  CheckMessage(file.Integer(key));
  CheckMessage(file.Float(key));
  CheckMessage(file.Bool(key));
  CheckMessage(file.Integers(key));
}

void CheckTensor(const model::GgufFile& file, const model::GgufTensor& tensor, int64_t n_file) {
  SLUICE_CHECK(tensor.begin >= 0 && tensor.n_bytes > 0);
  SLUICE_CHECK(tensor.begin <= n_file - tensor.n_bytes);
  SLUICE_CHECK(tensor.shape.size() >= 1 && tensor.shape.size() <= 4);
  if (tensor.shape.size() > 2) return;
  const Matrix matrix = file.MatrixOf(tensor);
  SLUICE_CHECK(RowBytesOf(matrix) * matrix.n_out == tensor.n_bytes);
  static_cast<void>(model::CheckFinite(tensor.name, matrix, 0, matrix.n_out).ok());
  std::vector<float> values(static_cast<size_t>(matrix.n_in));
  DecodeMatrixRow(matrix, matrix.n_out - 1, values.data());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const Result<model::GgufFile> file = model::GgufFile::Parse(std::as_bytes(std::span(data, size)));
  CheckMessage(file);
  if (!file) return 0;
  const auto n_file = static_cast<int64_t>(size);
  std::string_view before;
  for (const model::GgufFile::Entry& entry : file->entries()) {
    SLUICE_CHECK(before < entry.key && file->Has(entry.key));
    AskFor(*file, entry.key);
    before = entry.key;
  }
  AskFor(*file, "no.such.key");
  std::vector<const model::GgufTensor*> by_place;
  int64_t n_bytes = 0;
  for (const model::GgufTensor& tensor : file->tensors()) {
    SLUICE_CHECK(file->FindTensor(tensor.name) == &tensor);
    CheckTensor(*file, tensor, n_file);
    by_place.push_back(&tensor);
    n_bytes += tensor.n_bytes;
  }
  SLUICE_CHECK(n_bytes <= n_file);
  std::ranges::sort(by_place, {}, [](const model::GgufTensor* tensor) { return tensor->begin; });
  for (size_t i = 1; i < by_place.size(); ++i) {
    SLUICE_CHECK(by_place[i - 1]->begin + by_place[i - 1]->n_bytes <= by_place[i]->begin);
  }
  return 0;
}
