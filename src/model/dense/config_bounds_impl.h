// What sizes a dense model may have, whatever file says so. Bounded so that products of two fit 32
// bits, and a hostile file cannot make us allocate much before its tensors are compared.

#pragma once

#include <cstdint>

namespace sluice::model::dense {

inline constexpr int64_t kMaxSize = 1 << 16;  // of a row of activations
inline constexpr int64_t kMinTokens = 3;
inline constexpr int64_t kMaxTokens = 1 << 20;
inline constexpr int64_t kMaxLayers = 1024;
inline constexpr int64_t kMaxHeads = 1024;
inline constexpr int64_t kMaxPositions = 1 << 24;
// Below the smallest normal float it would be flushed to zero.
inline constexpr double kMinEps = 1.2e-38, kMaxEps = 1;
inline constexpr double kMinRopeTheta = 1.001, kMaxRopeTheta = 1e12;
inline constexpr double kDefaultRopeTheta = 10000;

}  // namespace sluice::model::dense
