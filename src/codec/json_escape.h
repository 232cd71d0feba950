// Escapes that the JSON reader forgives and the reference codec does not. Pure functions.

#pragma once

#include <string>
#include <string_view>

namespace sluice::codec {

// Whether JSON text has a \u escape of half a surrogate pair.
bool HasLoneSurrogate(std::string_view json);

// Makes U+FFFD of each, as the JSON reader does.
std::string ReplaceLoneSurrogates(std::string_view json);

}  // namespace sluice::codec
