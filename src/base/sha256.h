// SHA-256, its keyed form, and comparison in constant time. Pure functions.

#pragma once

#include <array>
#include <cstddef>

#include "base/bytes.h"

namespace sluice {

std::array<std::byte, 32> Sha256(ConstBytes bytes);
// RFC 2104.
std::array<std::byte, 32> HmacSha256(ConstBytes key, ConstBytes message);

// Takes a time that depends on the lengths only.
bool ConstantTimeEqual(ConstBytes a, ConstBytes b);

}  // namespace sluice
