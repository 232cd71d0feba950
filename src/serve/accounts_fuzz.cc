// Any key file: loaded or refused, and a refusal never shows the rest of a line.

#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "serve/accounts.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  sluice::serve::Accounts accounts;
  sluice::Status status = accounts.Load("", text);
  if (status.ok() && !accounts.open()) SLUICE_CHECK(!accounts.Authenticate("").has_value());
  (void)accounts.Authenticate(text.substr(0, 64));
  return 0;
}
