// Whatever a file begins with: no crash, and what is accepted keeps the promises of the header: the
// tensors cover the data and reading each of them stays inside the file.

#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"
#include "model/checkpoint/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sluice;
  const ConstBytes file = std::as_bytes(std::span(data, size));
  const Result<std::vector<model::TensorEntry>> entries = model::ParseHeader(file);
  if (!entries) {
    SLUICE_CHECK(!entries.error().message().empty() && entries.error().message().size() < 600);
    return 0;
  }
  int64_t n_covered = 0;
  const model::TensorEntry* before = nullptr;
  for (const model::TensorEntry& entry : *entries) {
    SLUICE_CHECK(before == nullptr || before->name < entry.name);
    SLUICE_CHECK(entry.begin >= 8 && entry.n_bytes >= 0);
    SLUICE_CHECK(entry.begin <= static_cast<int64_t>(size) - entry.n_bytes);
    int64_t n_bytes = SizeOf(entry.dtype);
    for (int64_t n : entry.shape) n_bytes *= n;
    SLUICE_CHECK(n_bytes == entry.n_bytes);
    n_covered += entry.n_bytes;
    before = &entry;
  }
  SLUICE_CHECK(n_covered <= static_cast<int64_t>(size) - 8);
  return 0;
}
