// y = x W^T for packed matrices (tensor/packed.h) with VDPBF16PS, which is the order of op.h: of
// each pair the odd input first, fused, denormals flushed.
//
// A worker owns stripes. Rows go over them in groups that the registers hold the sums of; stripes
// stay in the second cache level from their first group on, and are decoded anew for each:
// decoding uses other ports than the dot products (spec cpu-kernels.md §2.4 d). Up to 4 rows take
// all tiles of a record side by side, which hides the latency of the chains (§3.0 item 5) and reads
// memory in one stream; more rows take 2 tiles.
//
// The scale is in the decoded weight: a table holds the values at 2^63, and the difference of the
// exponents is subtracted from the bits. Zero saturates to zero.

#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "kernels/linear/op.h"
#include "kernels/simd/dot_panel.h"
#include "kernels/simd/flush_denormals.h"
#include "tensor/buffer.h"
#include "tensor/packed.h"

namespace sluice::ops::linear::avx512bf16 {
namespace {

#define SLUICE_INLINE SLUICE_HOT_LOOP __attribute__((always_inline)) inline

constexpr int kMaxRows = 12;
constexpr int kFewRows = 4;
constexpr int kMaxTiles = 4;
constexpr int64_t kAheadBytes = 12 << 10;  // 8 to 16 KiB: spec cpu-kernels.md §4.5

struct Stripe {
  const uint8_t* records = nullptr;
  const uint8_t* scales = nullptr;  // FP8: one per record
  int64_t n_records = 0;
  int64_t first_output = 0;
};

// sums [kRows, kTiles * 16] <- rows . tiles [first_tile, first_tile + kTiles) of the stripe.
// x    pairs of inputs [n_pairs, kRows]
using Kernel = void (*)(const Stripe& stripe, int64_t first_tile, const int32_t* x, float* sums);

template <int kTiles, int kRows>
struct Sums {
  __m512 of[kTiles][kRows];
};

template <int kTiles, int kRows>
SLUICE_INLINE void Clear(Sums<kTiles, kRows>& sums) {
#pragma GCC unroll 4
  for (int tile = 0; tile < kTiles; ++tile) {
#pragma GCC unroll 12
    for (int row = 0; row < kRows; ++row) sums.of[tile][row] = _mm512_setzero_ps();
  }
}

template <int kTiles, int kRows>
SLUICE_INLINE void Store(const Sums<kTiles, kRows>& sums, float* out) {
#pragma GCC unroll 4
  for (int tile = 0; tile < kTiles; ++tile) {
#pragma GCC unroll 12
    for (int row = 0; row < kRows; ++row) {
      _mm512_storeu_ps(out + (row * kTiles + tile) * 16, sums.of[tile][row]);
    }
  }
}

// One pair of inputs of all rows. Neighbours are independent of each other.
template <int kTiles, int kRows>
SLUICE_INLINE void AddPair(const __m512i (&weights)[kTiles],
                           const int32_t* x,
                           Sums<kTiles, kRows>& sums) {
#pragma GCC unroll 12
  for (int row = 0; row < kRows; ++row) {
    const auto pair = reinterpret_cast<__m512bh>(_mm512_set1_epi32(x[row]));
#pragma GCC unroll 4
    for (int tile = 0; tile < kTiles; ++tile) {
      sums.of[tile][row] =
          _mm512_dpbf16_ps(sums.of[tile][row], reinterpret_cast<__m512bh>(weights[tile]), pair);
    }
  }
}

// The line that stands here in a later record.
template <MatrixFormat kFormat>
SLUICE_INLINE void Prefetch(const uint8_t* line) {
  constexpr int64_t kRecordBytes = PackedShapeOf(kFormat).n_bytes;
  _mm_prefetch(line + kAheadBytes / kRecordBytes * kRecordBytes, _MM_HINT_T0);
}

// bf16: a line is a pair of inputs of 16 outputs.

template <int kTiles, int kRows>
SLUICE_HOT_LOOP void AddBf16(const Stripe& stripe,
                             int64_t first_tile,
                             const int32_t* x,
                             float* out) {
  constexpr PackedShape kShape = PackedShapeOf(MatrixFormat::kBf16);
  Sums<kTiles, kRows> sums;
  Clear(sums);
  const uint8_t* record = stripe.records + first_tile * kLineBytes;
  for (int64_t i = 0; i < stripe.n_records; ++i) {
    __m512i weights[kTiles];
#pragma GCC unroll 4
    for (int tile = 0; tile < kTiles; ++tile) {
      const uint8_t* line = record + tile * kLineBytes;
      Prefetch<MatrixFormat::kBf16>(line);
      weights[tile] = _mm512_loadu_si512(line);
    }
    AddPair(weights, x, sums);
    x += kRows;
    record += kShape.n_bytes;
  }
  Store(sums, out);
}

// F16: as bf16, but a product needs more bits than bf16 weights have, so there are two
// multiply-adds, which look at MXCSR.

template <int kTiles, int kRows>
SLUICE_HOT_LOOP void AddF16(const Stripe& stripe,
                            int64_t first_tile,
                            const int32_t* x,
                            float* out) {
  constexpr PackedShape kShape = PackedShapeOf(MatrixFormat::kF16);
  const __m512i high_half = _mm512_set1_epi32(-0x10000);
  Sums<kTiles, kRows> sums;
  Clear(sums);
  const uint8_t* record = stripe.records + first_tile * kLineBytes;
  for (int64_t i = 0; i < stripe.n_records; ++i) {
    __m512 even[kTiles];
    __m512 odd[kTiles];
#pragma GCC unroll 4
    for (int tile = 0; tile < kTiles; ++tile) {
      const uint8_t* line = record + tile * kLineBytes;
      Prefetch<MatrixFormat::kF16>(line);
      const __m512i pairs = _mm512_loadu_si512(line);
      even[tile] = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(pairs));
      odd[tile] = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_srli_epi32(pairs, 16)));
    }
#pragma GCC unroll 12
    for (int row = 0; row < kRows; ++row) {
      const __m512i pair = _mm512_set1_epi32(x[row]);
      const __m512 odd_x = _mm512_castsi512_ps(_mm512_and_si512(pair, high_half));
      const __m512 even_x = _mm512_castsi512_ps(_mm512_slli_epi32(pair, 16));
#pragma GCC unroll 4
      for (int tile = 0; tile < kTiles; ++tile) {
        sums.of[tile][row] = _mm512_fmadd_ps(odd_x, odd[tile], sums.of[tile][row]);
      }
#pragma GCC unroll 4
      for (int tile = 0; tile < kTiles; ++tile) {
        sums.of[tile][row] = _mm512_fmadd_ps(even_x, even[tile], sums.of[tile][row]);
      }
    }
    x += kRows;
    record += kShape.n_bytes;
  }
  Store(sums, out);
}

// FP4: a line is 4 pairs.

constexpr int16_t kFp4AtPow63[32] = {
#define SLUICE_FP4_HALF(sign)                                                                \
  0, static_cast<int16_t>((sign) | 189 << 7), static_cast<int16_t>((sign) | 190 << 7),       \
      static_cast<int16_t>((sign) | 190 << 7 | 64), static_cast<int16_t>((sign) | 191 << 7), \
      static_cast<int16_t>((sign) | 191 << 7 | 64), static_cast<int16_t>((sign) | 192 << 7), \
      static_cast<int16_t>((sign) | 192 << 7 | 64)
    SLUICE_FP4_HALF(0), SLUICE_FP4_HALF(0x8000), SLUICE_FP4_HALF(0), SLUICE_FP4_HALF(0x8000)};

// What is subtracted from both halves of the lanes of a tile: its rows' bytes, at the exponent.
SLUICE_INLINE __m512i Fp4Scales(__m512i header, int64_t tile) {
  const __m512i lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  const __m512i twice = _mm512_mullo_epi32(lanes, _mm512_set1_epi32(0x10001));
  const __m512i from = _mm512_add_epi8(twice, _mm512_set1_epi8(static_cast<char>(tile * 16)));
  const __m512i words = _mm512_maskz_permutexvar_epi8(0x5555555555555555, from, header);
  return _mm512_slli_epi16(words, 7);
}

template <int kTiles, int kRows>
SLUICE_HOT_LOOP void AddFp4(const Stripe& stripe,
                            int64_t first_tile,
                            const int32_t* x,
                            float* out) {
  constexpr PackedShape kShape = PackedShapeOf(MatrixFormat::kFp4);
  constexpr int64_t kTilesOfRecord = kShape.n_rows / kTileRows;
  const __m512i values = _mm512_loadu_si512(kFp4AtPow63);
  Sums<kTiles, kRows> sums;
  Clear(sums);
  const uint8_t* record = stripe.records;
  for (int64_t i = 0; i < stripe.n_records; ++i) {
    Prefetch<MatrixFormat::kFp4>(record);
    const __m512i header = _mm512_loadu_si512(record);
    __m512i scales[kTiles];
#pragma GCC unroll 4
    for (int tile = 0; tile < kTiles; ++tile) scales[tile] = Fp4Scales(header, first_tile + tile);
    const uint8_t* lines = record + kShape.n_header_bytes + first_tile * kLineBytes;
    for (int line = 0; line < 4; ++line) {
      __m512i codes[kTiles];
#pragma GCC unroll 4
      for (int tile = 0; tile < kTiles; ++tile) {
        Prefetch<MatrixFormat::kFp4>(lines + tile * kLineBytes);
        codes[tile] = _mm512_loadu_si512(lines + tile * kLineBytes);
      }
#pragma GCC unroll 4
      for (int pair = 0; pair < 4; ++pair) {
        __m512i weights[kTiles];
#pragma GCC unroll 4
        for (int tile = 0; tile < kTiles; ++tile) {
          // The index is the lowest 5 bits: the table stands there twice.
          const __m512i value = _mm512_permutexvar_epi16(codes[tile], values);
          weights[tile] = _mm512_subs_epu16(value, scales[tile]);
          codes[tile] = _mm512_srli_epi16(codes[tile], 4);
        }
        AddPair(weights, x + pair * kRows, sums);
      }
      x += 4 * kRows;
      lines += kTilesOfRecord * kLineBytes;
    }
    record += kShape.n_bytes;
  }
  Store(sums, out);
}

// FP8: a line is 2 pairs.

// High and low bytes of the bf16 values of all magnitudes, at 2^63.
struct Fp8Table {
  uint8_t high[128];
  uint8_t low[128];
};

consteval Fp8Table MakeFp8Table() {
  Fp8Table table{};
  for (int magnitude = 1; magnitude < 128; ++magnitude) {
    int exponent = magnitude >> 3;
    int fraction = (magnitude & 7) << 4;
    if (exponent == 0) {  // subnormal: fraction * 2^-9
      exponent = 1;
      while (fraction < 128) {
        fraction *= 2;
        --exponent;
      }
      fraction -= 128;
    }
    const int bits = (exponent - 7 + kPackedExponent) << 7 | fraction;
    table.high[magnitude] = static_cast<uint8_t>(bits >> 8);
    table.low[magnitude] = static_cast<uint8_t>(bits & 255);
  }
  return table;
}
constexpr Fp8Table kFp8Table = MakeFp8Table();

template <int kTiles, int kRows>
SLUICE_HOT_LOOP void AddFp8(const Stripe& stripe,
                            int64_t first_tile,
                            const int32_t* x,
                            float* out) {
  constexpr PackedShape kShape = PackedShapeOf(MatrixFormat::kFp8);
  constexpr int64_t kTilesOfRecord = kShape.n_rows / kTileRows;
  static_assert(kTiles == kTilesOfRecord);
  const __m512i high0 = _mm512_loadu_si512(kFp8Table.high);
  const __m512i high1 = _mm512_loadu_si512(kFp8Table.high + 64);
  const __m512i low0 = _mm512_loadu_si512(kFp8Table.low);
  const __m512i low1 = _mm512_loadu_si512(kFp8Table.low + 64);
  const __m512i sign = _mm512_set1_epi8(static_cast<char>(0x80));
  Sums<kTiles, kRows> sums;
  Clear(sums);
  const uint8_t* lines = stripe.records + first_tile * kLineBytes;
  for (int64_t i = 0; i < stripe.n_records; ++i) {
    const int difference = (kPackedExponent - stripe.scales[i]) << 7;
    const __m512i scale = _mm512_set1_epi16(static_cast<int16_t>(difference));
    for (int line = 0; line < 8; ++line) {
      __m512i first[kTiles];
      __m512i second[kTiles];
#pragma GCC unroll 2
      for (int tile = 0; tile < kTiles; ++tile) {
        Prefetch<MatrixFormat::kFp8>(lines + tile * kLineBytes);
        const __m512i codes = _mm512_loadu_si512(lines + tile * kLineBytes);
        const __m512i low = _mm512_permutex2var_epi8(low0, codes, low1);
        const __m512i magnitude = _mm512_permutex2var_epi8(high0, codes, high1);
        constexpr int kOrAnd = 0xF8;  // magnitude | (codes & sign)
        const __m512i high = _mm512_ternarylogic_epi32(magnitude, codes, sign, kOrAnd);
        first[tile] = _mm512_subs_epu16(_mm512_unpacklo_epi8(low, high), scale);
        second[tile] = _mm512_subs_epu16(_mm512_unpackhi_epi8(low, high), scale);
      }
      AddPair(first, x, sums);
      AddPair(second, x + kRows, sums);
      x += 2 * kRows;
      lines += kTilesOfRecord * kLineBytes;
    }
  }
  Store(sums, out);
}

// Which one, for how many rows.

struct Kernels {
  int n_tiles = 0;   // of a record
  int max_rows = 0;  // of a group
  Kernel of[kMaxRows] = {};

  int TilesOf(int64_t n_rows) const { return n_rows <= kFewRows ? n_tiles : 2; }
};

constexpr Kernels kBf16Kernels = {
    .n_tiles = 2,
    .max_rows = 12,
    .of = {&AddBf16<2, 1>, &AddBf16<2, 2>, &AddBf16<2, 3>, &AddBf16<2, 4>, &AddBf16<2, 5>,
           &AddBf16<2, 6>, &AddBf16<2, 7>, &AddBf16<2, 8>, &AddBf16<2, 9>, &AddBf16<2, 10>,
           &AddBf16<2, 11>, &AddBf16<2, 12>}};
constexpr Kernels kF16Kernels = {
    .n_tiles = 2,
    .max_rows = 12,
    .of = {&AddF16<2, 1>, &AddF16<2, 2>, &AddF16<2, 3>, &AddF16<2, 4>, &AddF16<2, 5>, &AddF16<2, 6>,
           &AddF16<2, 7>, &AddF16<2, 8>, &AddF16<2, 9>, &AddF16<2, 10>, &AddF16<2, 11>,
           &AddF16<2, 12>}};
constexpr Kernels kFp4Kernels = {
    .n_tiles = 4,
    .max_rows = 12,
    .of = {&AddFp4<4, 1>, &AddFp4<4, 2>, &AddFp4<4, 3>, &AddFp4<4, 4>, &AddFp4<2, 5>, &AddFp4<2, 6>,
           &AddFp4<2, 7>, &AddFp4<2, 8>, &AddFp4<2, 9>, &AddFp4<2, 10>, &AddFp4<2, 11>,
           &AddFp4<2, 12>}};
// Its tables take registers.
constexpr Kernels kFp8Kernels = {
    .n_tiles = 2,
    .max_rows = 9,
    .of = {&AddFp8<2, 1>, &AddFp8<2, 2>, &AddFp8<2, 3>, &AddFp8<2, 4>, &AddFp8<2, 5>, &AddFp8<2, 6>,
           &AddFp8<2, 7>, &AddFp8<2, 8>, &AddFp8<2, 9>}};

const Kernels& KernelsOf(MatrixFormat format) {
  if (format == MatrixFormat::kFp4) return kFp4Kernels;
  if (format == MatrixFormat::kFp8) return kFp8Kernels;
  return format == MatrixFormat::kF16 ? kF16Kernels : kBf16Kernels;
}

// Rows in near-equal groups; where pairs of a group stand in the packed x.
struct Groups {
  int64_t n_rows = 0;
  int64_t n = 0;
  int64_t n_pairs = 0;

  int64_t FirstOf(int64_t group) const { return n_rows * group / n; }
  int64_t PlaceOf(int64_t group) const { return FirstOf(group) * n_pairs; }
};

// Pairs [n_pairs, rows of the group]. Behind the last input stands -0: its product with a weight of
// +0 leaves every sum as it is, -0 too.
void PackRows(const Params& params, const Groups& groups, int64_t group, int32_t* x) {
  constexpr auto kNone = static_cast<int32_t>(0x80008000);
  const int64_t first = groups.FirstOf(group);
  const int64_t n_rows = groups.FirstOf(group + 1) - first;
  const int64_t n_in = params.weight.n_in;
  int32_t* out = x + groups.PlaceOf(group);
  for (int64_t row = 0; row < n_rows; ++row) {
    const Bf16* in = params.x + (first + row) * params.x_stride;
    int64_t pair = 0;
    for (; pair < n_in / 2; ++pair) std::memcpy(out + pair * n_rows + row, in + pair * 2, 4);
    for (; pair < groups.n_pairs; ++pair) {
      int32_t padded = kNone;
      if (pair * 2 < n_in) std::memcpy(&padded, in + pair * 2, 2);
      out[pair * n_rows + row] = padded;
    }
  }
}

// Sums of 16 outputs of a row from `output` on.
SLUICE_INLINE void StoreOutputs(const Params& params, int64_t row, int64_t output, __m512 sums) {
  const int64_t n = std::min<int64_t>(params.weight.n_out - output, 16);
  if (n <= 0) return;
  const auto mask = static_cast<__mmask16>((1U << n) - 1);
  const int64_t at = row * params.out_stride + output;
  if (params.out_f32 != nullptr) _mm512_mask_storeu_ps(params.out_f32 + at, mask, sums);
  if (params.out != nullptr) {
    const auto rounded = reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(sums));
    _mm256_mask_storeu_epi16(params.out + at, mask, rounded);
  }
}

// One group of rows over one stripe.
void RunStripe(const Params& params,
               const Stripe& stripe,
               const Groups& groups,
               int64_t group,
               const int32_t* x) {
  const Kernels& kernels = KernelsOf(params.weight.format);
  alignas(64) float sums[std::max(kMaxRows * 2, kFewRows * kMaxTiles) * 16];
  const int64_t first_row = groups.FirstOf(group);
  const int64_t n_rows = groups.FirstOf(group + 1) - first_row;
  const int n_tiles = kernels.TilesOf(n_rows);
  for (int64_t tile = 0; tile < kernels.n_tiles; tile += n_tiles) {
    kernels.of[n_rows - 1](stripe, tile, x + groups.PlaceOf(group), sums);
    for (int64_t i = 0; i < n_rows * n_tiles; ++i) {
      const int64_t output = stripe.first_output + (tile + i % n_tiles) * kTileRows;
      StoreOutputs(params, first_row + i / n_tiles, output, _mm512_loadu_ps(sums + i * 16));
    }
  }
}

void RunStripes(
    const Params& params, const Groups& groups, const int32_t* x, int64_t begin, int64_t end) {
  const Matrix& weight = params.weight;
  const PackedShape shape = PackedShapeOf(weight.format);
  const int64_t n_records = RecordsOf(weight);
  const auto* records = static_cast<const uint8_t*>(weight.data);
  const simd::FlushDenormals flush(Arithmetic::kFloat32);
  for (int64_t i = begin; i < end; ++i) {
    const Stripe stripe{
        .records = records + i * n_records * shape.n_bytes,
        .scales = weight.format == MatrixFormat::kFp8 ? weight.scales + i * n_records : nullptr,
        .n_records = n_records,
        .first_output = i * shape.n_rows};
    for (int64_t group = 0; group < groups.n; ++group) {
      RunStripe(params, stripe, groups, group, x);
    }
  }
}

}  // namespace

bool Takes(const Params& params) { return params.weight.layout == MatrixLayout::kPacked; }

void Run(const Params& params, Stream& stream) {
  const Matrix& weight = params.weight;
  const PackedShape shape = PackedShapeOf(weight.format);
  const int64_t max_rows = KernelsOf(weight.format).max_rows;
  const Groups groups{.n_rows = params.n_rows,
                      .n = (params.n_rows + max_rows - 1) / max_rows,
                      .n_pairs = RecordsOf(weight) * shape.n_inputs / 2};
  auto* x = reinterpret_cast<int32_t*>(stream.Room(params.n_rows * groups.n_pairs * 4).data());
  if (groups.n == 1) {
    PackRows(params, groups, 0, x);  // quicker than to share it out
  } else {
    stream.team.Run(groups.n, [&](int64_t begin, int64_t end, int32_t) {
      for (int64_t group = begin; group < end; ++group) PackRows(params, groups, group, x);
    });
  }
  stream.team.Run(StripesOf(weight), [&](int64_t begin, int64_t end, int32_t) {
    RunStripes(params, groups, x, begin, end);
  });
}

}  // namespace sluice::ops::linear::avx512bf16
