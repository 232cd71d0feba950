#include "codec/image_tokens.h"

#include <algorithm>
#include <cmath>

namespace sluice::codec {
namespace {

constexpr int64_t kPatch = 14;             // pixels
constexpr int64_t kCell = 42;              // of a token: 3 patches
constexpr int64_t kMinPixels = 544 * 544;  // below, it is scaled up
constexpr int64_t kMaxTokens = 1024;

struct Box {
  int64_t width;
  int64_t height;
};

int64_t RoundUp(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

int64_t TokensOf(const Box& box) {
  const int64_t n_rows = RoundUp(box.height, kCell) / kCell;
  const int64_t n_columns = RoundUp(box.width, kCell) / kCell;
  return n_rows * (n_columns + 1) + 2;
}

// The largest grid of this shape that has kMaxTokens. In double, in the order of the reference:
// (H * scale) / 14 decides between two rows of patches.
Box FitToGrid(const Box& size) {
  constexpr int64_t kCells = kMaxTokens - 2;
  const double ratio = static_cast<double>(size.height) / static_cast<double>(size.width);
  const double columns = std::sqrt(static_cast<double>(kCells) / ratio + 0.25) - 0.5;
  const double rows = columns * ratio;
  if (columns < 1) return {.width = kCell, .height = kCells / 2 * kCell};
  if (rows < 1) return {.width = (kCells - 1) * kCell, .height = kCell};
  const double scale = std::min(std::floor(columns) * kCell / static_cast<double>(size.width),
                                std::floor(rows) * kCell / static_cast<double>(size.height));
  auto fit = [&](int64_t side) {
    return static_cast<int64_t>(std::floor(static_cast<double>(side) * scale / kPatch)) * kPatch;
  };
  return {.width = fit(size.width), .height = fit(size.height)};
}

}  // namespace

int32_t CountImageTokens(const ImageSize& size) {
  Box scaled{.width = size.width, .height = size.height};
  if (const int64_t area = scaled.width * scaled.height; area > 0 && area < kMinPixels) {
    const double scale = std::sqrt(static_cast<double>(kMinPixels) / static_cast<double>(area));
    scaled.width = static_cast<int64_t>(static_cast<double>(scaled.width) * scale);
    scaled.height = static_cast<int64_t>(static_cast<double>(scaled.height) * scale);
  }
  Box box{.width = RoundUp(scaled.width, kPatch), .height = RoundUp(scaled.height, kPatch)};
  if (TokensOf(box) > kMaxTokens) box = FitToGrid(scaled);
  return static_cast<int32_t>(TokensOf(box));
}

}  // namespace sluice::codec
