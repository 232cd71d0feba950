#include "tensor/block_format.h"

#include "base/check.h"
#include "tensor/block_decode.h"
#include "tensor/formats.h"

namespace sluice {
namespace {

template <MatrixFormat kFormat>
void Decode(const uint8_t* block, float* out) {
  constexpr BlockShape kShape = ShapeOf(kFormat);
  constexpr int32_t kGroups = kShape.n_values / kShape.group;
  int8_t codes[kShape.n_values];
  float scales[kGroups];
  float mins[kGroups];
  DecodeCodes<kFormat>(block, codes);
  DecodeScales<kFormat>(block, scales, mins);
  for (int32_t i = 0; i < kShape.n_values; ++i) {
    out[i] = scales[i / kShape.group] * static_cast<float>(codes[i]);
    if constexpr (kShape.has_min) out[i] += mins[i / kShape.group];
  }
}

bool IsFinite(const uint8_t* f16) { return (F16BitsAt(f16) & 0x7C00) != 0x7C00; }

}  // namespace

void DecodeBlock(MatrixFormat format, const uint8_t* block, float* out) {
  WithBlockFormat(format, [&](auto tag) { Decode<tag.kFormat>(block, out); });
}

bool HasFiniteScales(MatrixFormat format, const uint8_t* block) {
  const bool has_finite_scale = IsFinite(block + ScaleByteOf(format));
  return ShapeOf(format).has_min ? has_finite_scale && IsFinite(block + kMinByte)
                                 : has_finite_scale;
}

}  // namespace sluice
