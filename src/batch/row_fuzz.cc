// A line of the input and one of the output: whatever they hold, nothing but a verdict comes of it.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "batch/output.h"
#include "batch/row.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sluice::batch;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Row row = ReadRow(text);
  SLUICE_CHECK((row.dialect != nullptr && !row.custom_id.empty()) || !row.fault_code.empty());
  const auto earlier = ReadEarlier(text);
  if (earlier) SLUICE_CHECK(earlier->n_bytes <= static_cast<int64_t>(size));
  return 0;
}
