#include "tensor/formats.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace sluice {
namespace {

constexpr float kE4m3Max = 448.0F;
constexpr float kE2m1Max = 6.0F;
constexpr float kE4m3Least = 0x1p-9F;  // the smallest subnormal

constexpr float E4m3Value(uint8_t code) {
  const int exponent = (code >> 3) & 15;
  const int fraction = code & 7;
  if ((code & 0x7F) == 0x7F) return std::bit_cast<float>(uint32_t{0x7FC00000});
  float value = static_cast<float>(exponent == 0 ? fraction : 8 + fraction);
  value *= std::bit_cast<float>(static_cast<uint32_t>(std::max(exponent, 1) - 10 + 127) << 23);
  return (code & 0x80) != 0 ? -value : value;
}

constexpr std::array<float, 256> MakeE4m3() {
  std::array<float, 256> table{};
  for (int code = 0; code < 256; ++code) {
    table[static_cast<size_t>(code)] = E4m3Value(static_cast<uint8_t>(code));
  }
  return table;
}

// Rounds to an integer, ties to even; 0 <= x < 2^22. Adding 2^23 leaves no fraction bits.
float RoundToInteger(float x) {
  const float shifted = x + 0x1p23F;
  return shifted - 0x1p23F;
}

float LargestMagnitude(const Bf16* x, int32_t n) {
  float largest = 0;
  for (int32_t i = 0; i < n; ++i) largest = std::max(largest, std::fabs(ToFloat(x[i])));
  return largest;
}

// 2^exponent, exponent in [-126, 127].
float Pow2(int32_t exponent) {
  return std::bit_cast<float>(static_cast<uint32_t>(exponent + 127) << 23);
}

void PackE2m1(const Bf16* x, int32_t n, float scale, uint8_t* codes) {
  for (int32_t i = 0; i < n; i += 2) {
    const uint8_t even = ToE2m1(ToFloat(x[i]) / scale);
    const uint8_t odd = ToE2m1(ToFloat(x[i + 1]) / scale);
    codes[i / 2] = static_cast<uint8_t>(even | (odd << 4));
  }
}

// Floors and divisors as in the official kernels; the product with the reciprocal is rounded to
// float (spec model.md §3.0).
void QuantizeGroupFp8(const Bf16* x, uint8_t* codes, uint8_t* scale) {
  const float amax = std::max(LargestMagnitude(x, 32), 1e-4F);
  const int32_t exponent = Pow2CeilExponent(amax * (1.0F / kE4m3Max));
  const float inverse = Pow2(-exponent);  // a power of two: the product is the quotient
  for (int32_t i = 0; i < 32; ++i) codes[i] = ToE4m3(ToFloat(x[i]) * inverse);
  *scale = static_cast<uint8_t>(exponent + 127);
}

void QuantizeGroupFp4Mx(const Bf16* x, uint8_t* codes, uint8_t* scale) {
  const float amax = std::max(LargestMagnitude(x, 32), kE2m1Max * 0x1p-126F);
  const int32_t exponent = Pow2CeilExponent(amax * (1.0F / kE2m1Max));
  PackE2m1(x, 32, Pow2(exponent), codes);
  *scale = static_cast<uint8_t>(exponent + 127);
}

void QuantizeGroupFp4Nv(const Bf16* x, uint8_t* codes, uint8_t* scale) {
  const float amax = std::max(LargestMagnitude(x, 16), kE2m1Max * kE4m3Least);
  *scale = ToE4m3(amax / kE2m1Max);
  PackE2m1(x, 16, FromE4m3(*scale), codes);
}

}  // namespace

constexpr std::array<float, 256> kE4m3Values = MakeE4m3();
constexpr std::array<float, 16> kE2m1Values = {0,     0.5F,  1,  1.5F,  2,  3,  4,  6,
                                               -0.0F, -0.5F, -1, -1.5F, -2, -3, -4, -6};

uint8_t ToE4m3(float x) {
  if (std::isnan(x)) return 0x7F;
  const uint8_t sign = std::signbit(x) ? 0x80 : 0;
  const float magnitude = std::min(std::fabs(x), kE4m3Max);
  // Below the smallest normal, 2^-6, the step is that of the first binade.
  const auto biased = static_cast<int>(std::bit_cast<uint32_t>(magnitude) >> 23);
  const int exponent = std::max(biased - 127, -6);
  const float steps = RoundToInteger(magnitude * Pow2(3 - exponent));
  // The code is linear in steps within a binade; 16 steps are the next one's first.
  return static_cast<uint8_t>(sign | ((exponent + 6) * 8 + static_cast<int>(steps)));
}

uint8_t ToE2m1(float x) {
  if (std::isnan(x)) return 7;  // the format has none
  const uint8_t sign = std::signbit(x) ? 8 : 0;
  const float magnitude = std::min(std::fabs(x), kE2m1Max);
  float code;
  if (magnitude < 2) {
    code = RoundToInteger(magnitude * 2);  // steps of 0.5: codes 0 to 4
  } else if (magnitude < 4) {
    code = RoundToInteger(magnitude) + 2;  // 2, 3, 4: codes 4 to 6
  } else {
    code = RoundToInteger(magnitude / 2) + 4;  // 4, 6: codes 6 and 7
  }
  return static_cast<uint8_t>(sign | static_cast<int>(code));
}

void QuantizeRow(GroupFormat format, const Bf16* x, int32_t n, uint8_t* codes, uint8_t* scales) {
  const int32_t group = GroupSize(format);
  const int32_t code_bytes = CodeBytes(format, group);
  for (int32_t g = 0; g < n / group; ++g) {
    const Bf16* in = x + int64_t{g} * group;
    uint8_t* out = codes + int64_t{g} * code_bytes;
    switch (format) {
      case GroupFormat::kFp8:
        QuantizeGroupFp8(in, out, scales + g);
        break;
      case GroupFormat::kFp4Mx:
        QuantizeGroupFp4Mx(in, out, scales + g);
        break;
      case GroupFormat::kFp4Nv:
        QuantizeGroupFp4Nv(in, out, scales + g);
        break;
    }
  }
}

void DequantizeRow(
    GroupFormat format, const uint8_t* codes, const uint8_t* scales, int32_t n, float* out) {
  const int32_t group = GroupSize(format);
  for (int32_t first = 0; first < n; first += group) {
    const uint8_t scale_code = scales[first / group];
    const float scale = format == GroupFormat::kFp4Nv ? FromE4m3(scale_code) : FromE8m0(scale_code);
    if (format == GroupFormat::kFp8) {
      for (int32_t i = first; i < first + group; ++i) out[i] = FromE4m3(codes[i]) * scale;
      continue;
    }
    for (int32_t i = first; i < first + group; i += 2) {
      out[i] = FromE2m1(codes[i / 2]) * scale;
      out[i + 1] = FromE2m1(static_cast<uint8_t>(codes[i / 2] >> 4)) * scale;
    }
  }
}

}  // namespace sluice
