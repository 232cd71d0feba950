// Whatever config.json says: no crash, and from what is accepted the list of tensors can be made
// within bounds.

#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/limits.h"
#include "model/deepseek_v41/config.h"
#include "model/deepseek_v41/tensor_list.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sluice;
  using namespace sluice::model::deepseek_v41;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Result<Config> config = Config::Parse(text);
  if (!config) {
    SLUICE_CHECK(!config.error().message().empty() && config.error().message().size() < 20'000);
    return 0;
  }
  for (int32_t layer = 0; layer < config->num_hidden_layers; ++layer) {
    const int32_t source = config->KvSource(layer);
    SLUICE_CHECK((source < 0) == (config->ratio(layer) == 0));
    SLUICE_CHECK(source <= config->IndexSource(layer) && config->IndexSource(layer) <= layer);
  }
  for (const TensorSpec& tensor : ListTensors(*config)) SLUICE_CHECK(tensor.n_bytes() > 0);
  return 0;
}
