// The billing line that some clients put in front of their system text. It differs per conversation
// and would spoil every cached prefix (spec recipe.md §7.2, §7.3). Pure functions.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sluice::codec {

enum class LetterCase : uint8_t { kExact, kAny };

bool HasBillingHeader(std::string_view text, LetterCase letters);

// Without everything before the first line feed or `You are`, and leading white space; empty if
// there is neither. A text without the header stays as it is.
void StripBillingHeader(std::string& text, LetterCase letters);

}  // namespace sluice::codec
