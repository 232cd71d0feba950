// Whatever arrives: no crash, no report, and what is accepted is written as text that reads back as
// the same.

#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/json.h"
#include "base/json_scan_impl.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sluice;
  std::string_view text(reinterpret_cast<const char*>(data), size);
  Result<Json> json = Json::Parse(text);
  // The scanner is an independent reader of the grammar: the two must accept the same texts.
  JsonScan scan = ScanJson(text, limits::kMaxJsonDepth, limits::kMaxJsonValues);
  SLUICE_CHECK(json.has_value() == !scan.error.has_value());
  if (!json) {
    SLUICE_CHECK(json.error().message().size() < 200);
    return 0;
  }
  std::string once = json->root().ToText();
  Result<Json> again = Json::Parse(once);
  SLUICE_CHECK(again.has_value());
  SLUICE_CHECK(again->root().ToText() == once);
  return 0;
}
