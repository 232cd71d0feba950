// Compressed request bodies. Pure; runs on the prep pool.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace sluice::serve {

// Whether Content-Encoding `encoding` (lower case) can be read: gzip, deflate, zstd.
bool CanDecode(std::string_view encoding);

// The decoded body; kTooLarge as soon as it would exceed `max_bytes`, however small the encoded one
// is.
Result<std::string> DecodeBody(std::string_view encoding, std::string_view body, int64_t max_bytes);

}  // namespace sluice::serve
