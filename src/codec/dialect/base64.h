// Base64 as clients send images (spec recipe.md §9). Pure functions; nothing is decoded here.

#pragma once

#include <string_view>

namespace sluice::codec {

// Whether a strict decoder takes it: whole quanta, `=` at the end only, no bits set behind the last
// byte.
bool IsStrictBase64(std::string_view text);

}  // namespace sluice::codec
