// Any bytes as any of the texts: every answer lies within its bounds.

#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "env/proc_text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sluice;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  SLUICE_CHECK(KilobyteField(text, "MemTotal").value_or(0) >= 0);
  SLUICE_CHECK(CountOfRanges(text).value_or(1) >= 1);
  SLUICE_CHECK(CoresOfQuota(text).value_or(0) >= 0);
  SLUICE_CHECK(CgroupBytes(text).value_or(0) >= 0);
  SLUICE_CHECK(StatBytes(text, "inactive_file").value_or(0) >= 0);
  SLUICE_CHECK(OpenFilesLimit(text).value_or(0) >= 0);
  SLUICE_CHECK(CgroupPath(text).find("..") == std::string_view::npos);
  SLUICE_CHECK(FieldOf(text, "flags").size() <= size);
  SLUICE_CHECK(ChosenWord(text).size() <= size);
  (void)HasWord(text, "avx2");
  return 0;
}
