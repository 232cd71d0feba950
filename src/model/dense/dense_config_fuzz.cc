// Whatever config.json or a GGUF file says of a dense model: no crash, and from what is accepted
// the list of tensors and the layout can be made within bounds.

#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/limits.h"
#include "model/checkpoint/gguf.h"
#include "model/dense/config.h"
#include "model/dense/dense.h"
#include "model/dense/tensor_list.h"

namespace {

using namespace sluice;
using namespace sluice::model;

Result<dense::Config> Read(ConstBytes bytes, std::string_view text) {
  if (!text.starts_with("GGUF")) return dense::Config::Parse(text);
  SLUICE_TRY(const GgufFile file, GgufFile::Parse(bytes));
  return dense::Config::FromGguf(file);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Result<dense::Config> config = Read({reinterpret_cast<const std::byte*>(data), size}, text);
  if (!config) {
    SLUICE_CHECK(!config.error().message().empty() && config.error().message().size() < 20'000);
    return 0;
  }
  for (const dense::Naming naming : {dense::Naming::kHuggingFace, dense::Naming::kGguf}) {
    for (const dense::TensorSpec& tensor : dense::ListTensors(*config, naming)) {
      for (const int64_t n : tensor.shape) SLUICE_CHECK(n > 0 && n <= int64_t{1} << 20);
    }
  }
  const dense::Dense model({.config = *config, .weights = {}, .source = nullptr});
  SLUICE_CHECK(model.info().layout.block_bytes() > 0);
  SLUICE_CHECK(model.WorkspaceBytes({.n_rows = 1, .n_seqs = 1}) > 0);
  return 0;
}
