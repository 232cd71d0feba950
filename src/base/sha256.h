// SHA-256 and comparison in constant time. Pure functions.

#pragma once

#include <array>
#include <cstddef>

#include "base/bytes.h"

namespace sluice {

std::array<std::byte, 32> Sha256(ConstBytes bytes);

// Takes a time that depends on the lengths only.
bool ConstantTimeEqual(ConstBytes a, ConstBytes b);

}  // namespace sluice
