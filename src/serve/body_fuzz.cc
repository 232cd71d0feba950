// Any bytes as a compressed body: decoded within the limit, or refused.

#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "serve/body.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  constexpr int64_t kLimit = 1 << 16;
  std::string_view body(reinterpret_cast<const char*>(data + 1), size - 1);
  sluice::Result<std::string> decoded =
      sluice::serve::DecodeBody(data[0] % 2 == 0 ? "zstd" : "gzip", body, kLimit);
  if (decoded) SLUICE_CHECK(static_cast<int64_t>(decoded->size()) <= kLimit);
  return 0;
}
