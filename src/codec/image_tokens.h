// How many tokens an image is (spec recipe.md §9). Pure functions.

#pragma once

#include <cstdint>

namespace sluice::codec {

struct ImageSize {
  int32_t width = 0;  // pixels, at least 1
  int32_t height = 0;
};

// What the image is fitted to: patches of 14 pixels, 3 x 3 of them a token, a token at the end of
// each row, and one before and one behind.
int32_t CountImageTokens(const ImageSize& size);

}  // namespace sluice::codec
