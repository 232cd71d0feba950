// The parts of one block of block_format.h, inline and by format: decoding is most of what a
// product with one row costs. Plain loops of fixed length, which compilers turn into vectors.
// For the operators; everybody else takes block_format.h. Pure functions.

#pragma once

#include <cstdint>
#include <cstring>

#include "base/check.h"
#include "tensor/block_format.h"
#include "tensor/formats.h"

namespace sluice {

inline uint16_t F16BitsAt(const uint8_t* bytes) {
  return static_cast<uint16_t>(bytes[0] | bytes[1] << 8);
}

// Where the f16 numbers of a block stand: its scale, and what its minima are made of.
constexpr int32_t ScaleByteOf(MatrixFormat format) {
  return format == MatrixFormat::kQ6K ? 208 : 0;
}
inline constexpr int32_t kMinByte = 2;

// Low nibbles are the first n codes, high nibbles the next.
inline void SplitNibbles(const uint8_t* __restrict bytes, int32_t n, uint8_t* __restrict codes) {
  for (int32_t i = 0; i < n; ++i) codes[i] = bytes[i] & 15;
  for (int32_t i = 0; i < n; ++i) codes[n + i] = static_cast<uint8_t>(bytes[i] >> 4);
}

// Adds 16 to the codes whose bit is set in 32 bits, the first code's lowest; kSigned: subtracts 16
// from the others instead. Eight codes at a time in the bytes of a word: bit i of a byte of bits
// goes to byte i, and from wherever it is there to the place of 16.
template <bool kSigned>
inline void AddFifthBits(const uint8_t* bits, uint8_t* codes) {
  constexpr uint64_t kOnes = 0x0101'0101'0101'0101;
  constexpr uint64_t kDiagonal = 0x8040'2010'0804'0201;
  for (int32_t i = 0; i < 4; ++i) {
    const uint64_t spread = bits[i] * kOnes & kDiagonal;
    const uint64_t sixteens = ((spread + 0x7F * kOnes) & 0x80 * kOnes) >> 3;
    uint64_t eight = 0;
    std::memcpy(&eight, codes + i * 8, sizeof eight);
    // A code below 16 and 0xF0 are the byte that is 16 less.
    eight |= kSigned ? (16 * kOnes - sixteens) * 15 : sixteens;
    std::memcpy(codes + i * 8, &eight, sizeof eight);
  }
}

// Halves of 128: 64 bytes of low nibbles and 32 bytes of pairs of high bits make quarters of 32.
inline void DecodeQ6KCodes(const uint8_t* block, uint8_t* codes) {
  for (int32_t half = 0; half < 2; ++half) {
    const uint8_t* low = block + half * 64;
    const uint8_t* high = block + 128 + half * 32;
    uint8_t* out = codes + half * 128;
    SplitNibbles(low, 64, out);
    for (int32_t i = 0; i < 32; ++i) {
      for (int32_t quarter = 0; quarter < 4; ++quarter) {
        const int32_t bits = high[i] >> 2 * quarter & 3;
        out[quarter * 32 + i] = static_cast<uint8_t>(out[quarter * 32 + i] + bits * 16 - 32);
      }
    }
  }
}

// The codes of one block in the order of the inputs, [n_values].
template <MatrixFormat kFormat>
inline void DecodeCodes(const uint8_t* block, int8_t* signed_codes) {
  auto* codes = reinterpret_cast<uint8_t*>(signed_codes);  // bits are put together unsigned
  if constexpr (kFormat == MatrixFormat::kQ4_0) {
    SplitNibbles(block + 2, 16, codes);
    for (int32_t i = 0; i < 32; ++i) codes[i] = static_cast<uint8_t>(codes[i] - 8);
  } else if constexpr (kFormat == MatrixFormat::kQ4_1) {
    SplitNibbles(block + 4, 16, codes);
  } else if constexpr (kFormat == MatrixFormat::kQ5_0) {
    SplitNibbles(block + 6, 16, codes);
    AddFifthBits<true>(block + 2, codes);
  } else if constexpr (kFormat == MatrixFormat::kQ5_1) {
    SplitNibbles(block + 8, 16, codes);
    AddFifthBits<false>(block + 4, codes);
  } else if constexpr (kFormat == MatrixFormat::kQ8_0) {
    std::memcpy(codes, block + 2, 32);
  } else if constexpr (kFormat == MatrixFormat::kQ4K) {
    for (int32_t pair = 0; pair < 4; ++pair) {
      SplitNibbles(block + 16 + pair * 32, 32, codes + pair * 64);
    }
  } else if constexpr (kFormat == MatrixFormat::kQ5K) {
    for (int32_t pair = 0; pair < 4; ++pair) {
      SplitNibbles(block + 48 + pair * 32, 32, codes + pair * 64);
    }
    // Byte i of the high bits serves value i of each of the eight groups.
    for (int32_t group = 0; group < 8; ++group) {
      for (int32_t i = 0; i < 32; ++i) {
        const int32_t bit = block[16 + i] >> group & 1;
        codes[group * 32 + i] = static_cast<uint8_t>(codes[group * 32 + i] + bit * 16);
      }
    }
  } else {
    static_assert(kFormat == MatrixFormat::kQ6K);
    DecodeQ6KCodes(block, codes);
  }
}

// Q4_K and Q5_K: the factors of scale and min for each of eight groups, 6 bits each in 12 bytes.
inline void DecodeSixBitFactors(const uint8_t* packed, float* scales, float* mins) {
  for (int32_t i = 0; i < 4; ++i) {
    scales[i] = static_cast<float>(packed[i] & 63);
    mins[i] = static_cast<float>(packed[4 + i] & 63);
    scales[4 + i] = static_cast<float>((packed[8 + i] & 15) | (packed[i] >> 6) << 4);
    mins[4 + i] = static_cast<float>(packed[8 + i] >> 4 | (packed[4 + i] >> 6) << 4);
  }
}

// scales, and mins where the format has them: [n_values / group]. In K formats a min is minus the
// product that the format subtracts.
template <MatrixFormat kFormat>
inline void DecodeScales(const uint8_t* block, float* scales, float* mins) {
  constexpr BlockShape kShape = ShapeOf(kFormat);
  const float scale = FromF16(F16BitsAt(block + ScaleByteOf(kFormat)));
  if constexpr (kFormat == MatrixFormat::kQ6K) {
    for (int32_t i = 0; i < 16; ++i) {
      scales[i] = scale * static_cast<float>(static_cast<int8_t>(block[192 + i]));
    }
  } else if constexpr (kShape.n_values == kMaxBlockValues) {
    const float min = FromF16(F16BitsAt(block + kMinByte));
    DecodeSixBitFactors(block + 4, scales, mins);
    for (int32_t i = 0; i < 8; ++i) {
      scales[i] = scale * scales[i];
      mins[i] = -(min * mins[i]);
    }
  } else {
    scales[0] = scale;
    if constexpr (kShape.has_min) mins[0] = FromF16(F16BitsAt(block + kMinByte));
  }
}

template <MatrixFormat kTagFormat>
struct BlockTag {
  static constexpr MatrixFormat kFormat = kTagFormat;
};

// body(BlockTag<format>()): from a value to code made for it.
template <typename Body>
void WithBlockFormat(MatrixFormat format, const Body& body) {
  switch (format) {
    case MatrixFormat::kQ4_0:
      return body(BlockTag<MatrixFormat::kQ4_0>());
    case MatrixFormat::kQ4_1:
      return body(BlockTag<MatrixFormat::kQ4_1>());
    case MatrixFormat::kQ5_0:
      return body(BlockTag<MatrixFormat::kQ5_0>());
    case MatrixFormat::kQ5_1:
      return body(BlockTag<MatrixFormat::kQ5_1>());
    case MatrixFormat::kQ8_0:
      return body(BlockTag<MatrixFormat::kQ8_0>());
    case MatrixFormat::kQ4K:
      return body(BlockTag<MatrixFormat::kQ4K>());
    case MatrixFormat::kQ5K:
      return body(BlockTag<MatrixFormat::kQ5K>());
    case MatrixFormat::kQ6K:
      return body(BlockTag<MatrixFormat::kQ6K>());
    default:
      SLUICE_CHECK(IsBlockFormat(format));
  }
}

}  // namespace sluice
