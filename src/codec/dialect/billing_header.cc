#include "codec/dialect/billing_header.h"

#include <algorithm>

#include "codec/dialect/field.h"

namespace sluice::codec {
namespace {

constexpr std::string_view kHeader = "x-anthropic-billing-header";

}  // namespace

bool HasBillingHeader(std::string_view text, LetterCase letters) {
  return letters == LetterCase::kAny ? StartsWithIgnoringCase(text, kHeader)
                                     : text.starts_with(kHeader);
}

void StripBillingHeader(std::string& text, LetterCase letters) {
  if (!HasBillingHeader(text, letters)) return;
  size_t rest = std::min(text.find('\n'), text.find("You are"));
  if (rest != std::string::npos) rest = text.find_first_not_of(" \t\n\v\f\r", rest);
  text.erase(0, rest);
}

}  // namespace sluice::codec
