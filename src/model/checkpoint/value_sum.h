// A sum of all bytes of a model, by which one set of weights is told from another. Pure functions.

#pragma once

#include <array>
#include <cstdint>

#include "base/bytes.h"

namespace sluice::model {

using ValueSum = std::array<uint64_t, 4>;
inline constexpr ValueSum kEmptySum = {1, 2, 3, 4};

// Another byte anywhere gives another sum; so does another cut into pieces. Fast, and no defence
// against somebody who looks for two models of one sum.
void AddToSum(ValueSum& sum, ConstBytes bytes);

}  // namespace sluice::model
