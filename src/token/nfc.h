// NFC: Unicode's composed form of a text. Pure; thread-safe.

#pragma once

#include <string>
#include <string_view>

namespace sluice::token {

// `text` in NFC: `text` itself where nothing has to be done, else what is written to `composed`.
// Bytes that are not UTF-8 stay as they are, and nothing composes across them. n characters take
// O(n log n) time, however many marks follow each other.
std::string_view ToNfc(std::string_view text, std::string& composed);

}  // namespace sluice::token
