// Where an image comes from: a web address, or a data URL (spec recipe.md §9). Pure functions.

#pragma once

#include <string_view>

#include "base/status.h"

namespace sluice::codec {

inline constexpr size_t kMaxImageUrlBytes = 8192;

// Whether it is meant as a web address.
bool IsWebUrl(std::string_view url);

// The reference's words for what it refuses, behind `where` and a colon: an address that is too
// long, a data URL that is not base64 of a known format.
Status CheckImageUrl(std::string_view where, std::string_view url);

}  // namespace sluice::codec
