// y = x W^T with packed weights in blocks (tensor/packed.h), by VDPBF16PS.
//
// A stripe is 32 outputs, two vectors. The chain of a group is 16 instructions for each of them;
// rows do not wait for each other, nor do the groups of a row, so the machine works on several at
// once, with one row on those of two or three records. Codes are made bf16 anew for every few
// rows: that runs beside the products (Zen 5) and needs no room. Sums over groups wait in the
// first cache level, where they cost less than the registers they would take from the chains.
// x is read as it lies: a group of a row is one line of cache.

#include <immintrin.h>

#include "kernels/block_linear/op.h"
#include "kernels/simd/dot_panel.h"
#include "kernels/simd/flush_denormals.h"
#include "tensor/packed.h"

namespace sluice::ops::block_linear::avx512bf16 {
namespace {

#define SLUICE_HOT_INLINE SLUICE_HOT_LOOP __attribute__((always_inline)) inline

constexpr int64_t kGroup = 32;
constexpr int kPairs = kGroup / 2;
constexpr int64_t kOutputs = 32;  // of a stripe
constexpr int kTiles = kOutputs / kTileRows;
// Rows that go over a record together. Chains of 6 cycles, two of which begin in each, want 12: 6
// rows; 10 leave room for codes and tables in 32 registers, and for their addresses in 16.
constexpr int64_t kRowsMax = 10;
// Rows of formats with nibbles that take two records at once: more of them have chains enough, and
// fewer are faster with one, as memory likes one stream (Zen 5: 1.05 to 1.13 times as fast with 3
// and 4 rows, 0.88 with 1). Q8_0 gains nothing.
constexpr bool TakesTwoRecords(MatrixFormat format, int n_rows) {
  return format != MatrixFormat::kQ8_0 && (n_rows == 3 || n_rows == 4);
}
// How far ahead of the record that is worked on memory is asked for (spec cpu-kernels.md §4.5).
constexpr int64_t kPrefetchBytes = 12 * 1024;
// Inputs of the rows that go over one stripe after another: half of the second cache level.
constexpr int64_t kBlockInputs = 256 * 1024;
// Of the t_g of these rows; n_in is at most 32 times as many.
constexpr int64_t kInputSums = 16 * 1024;

struct Tables {
  alignas(64) uint16_t nibbles[32];          // codes of Q4_1 as bf16, twice
  alignas(64) uint16_t centred_nibbles[32];  // of Q4_0
  alignas(64) uint8_t low[128];              // of magnitudes: low and high byte of their bf16
  alignas(64) uint8_t high[128];
};

constexpr Tables MakeTables() {
  Tables tables{};
  for (int i = 0; i < 32; ++i) {
    tables.nibbles[i] = ToBf16(static_cast<float>(i % 16)).bits;
    tables.centred_nibbles[i] = ToBf16(static_cast<float>(i % 16 - 8)).bits;
  }
  for (int i = 0; i < 128; ++i) {
    const uint16_t bits = ToBf16(static_cast<float>(i)).bits;
    tables.low[i] = static_cast<uint8_t>(bits & 0xFF);
    tables.high[i] = static_cast<uint8_t>(bits >> 8);
  }
  return tables;
}

constexpr Tables kTables = MakeTables();

// What turns a line of a format into pairs of bf16, kPairsAtOnce from `pair` on.
template <MatrixFormat kFormat>
struct Decoder {
  static constexpr int kPairsOfLine = 4;
  static constexpr int kPairsAtOnce = 1;

  const __m512i table =
      _mm512_load_si512(kFormat == MatrixFormat::kQ4_0 ? kTables.centred_nibbles : kTables.nibbles);

  // The upper bits of an index do not count.
  SLUICE_HOT_INLINE void Decode(__m512i line, int pair, __m512i* pairs) const {
    pairs[0] = _mm512_permutexvar_epi16(_mm512_srli_epi16(line, 4 * pair), table);
  }
};

template <>
struct Decoder<MatrixFormat::kQ8_0> {
  static constexpr int kPairsOfLine = 2;
  static constexpr int kPairsAtOnce = 2;

  const __m512i low[2] = {_mm512_load_si512(kTables.low), _mm512_load_si512(kTables.low + 64)};
  const __m512i high[2] = {_mm512_load_si512(kTables.high), _mm512_load_si512(kTables.high + 64)};
  const __m512i sign = _mm512_set1_epi8(static_cast<char>(0x80));

  // The sign is no part of an index.
  SLUICE_HOT_INLINE void Decode(__m512i line, int /*pair*/, __m512i* pairs) const {
    constexpr int kOrAnd = 0xF8;  // a | (b & c)
    const __m512i lows = _mm512_permutex2var_epi8(low[0], line, low[1]);
    const __m512i magnitudes = _mm512_permutex2var_epi8(high[0], line, high[1]);
    const __m512i highs = _mm512_ternarylogic_epi32(magnitudes, line, sign, kOrAnd);
    pairs[0] = _mm512_unpacklo_epi8(lows, highs);
    pairs[1] = _mm512_unpackhi_epi8(lows, highs);
  }
};

SLUICE_HOT_INLINE __m512i PairAt(const Bf16* x) {
  int32_t pair;
  __builtin_memcpy(&pair, x, sizeof pair);
  return _mm512_set1_epi32(pair);
}

SLUICE_HOT_INLINE __m512 AddPair(__m512 sum, __m512i a, __m512i b) {
  return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b);
}

// One pair of inputs of kRows rows and both tiles; x are the rows at the group.
template <int kRows>
SLUICE_HOT_INLINE void AddPairOfRows(const __m512i (&weights)[kTiles],
                                     const Bf16* const (&x)[kRows],
                                     int64_t at,
                                     __m512 (&sums)[kRows][kTiles]) {
#pragma GCC unroll 16
  for (int row = 0; row < kRows; ++row) {
    const __m512i input = PairAt(x[row] + at);
    for (int tile = 0; tile < kTiles; ++tile) {
      sums[row][tile] = AddPair(sums[row][tile], weights[tile], input);
    }
  }
}

// s_g of kRows rows and kGroups records. Step, then tile, then row: neighbours in the code do not
// wait for each other.
template <MatrixFormat kFormat, int kGroups, int kRows>
SLUICE_HOT_INLINE void SumGroups(const Decoder<kFormat>& decoder,
                                 const uint8_t* lines,
                                 const Bf16* const (&x)[kRows],
                                 __m512 (&sums)[kGroups][kRows][kTiles]) {
  using D = Decoder<kFormat>;
  constexpr PackedShape kShape = PackedShapeOf(kFormat);
  constexpr int64_t kAhead = kPrefetchBytes / kShape.n_bytes * kShape.n_bytes;
  for (auto& of_group : sums) {
    for (auto& of_row : of_group) {
      for (__m512& sum : of_row) sum = _mm512_setzero_ps();
    }
  }
#pragma GCC unroll 16
  for (int first = 0; first < kPairs; first += D::kPairsAtOnce) {
#pragma GCC unroll 2
    for (int group = 0; group < kGroups; ++group) {
      __m512i weights[D::kPairsAtOnce][kTiles];
      for (int tile = 0; tile < kTiles; ++tile) {
        const uint8_t* line =
            lines + group * kShape.n_bytes + (first / D::kPairsOfLine * kTiles + tile) * kLineBytes;
        if (first % D::kPairsOfLine == 0) _mm_prefetch(line + kAhead, _MM_HINT_T0);
        __m512i pairs[D::kPairsAtOnce];
        decoder.Decode(_mm512_loadu_si512(line), first % D::kPairsOfLine, pairs);
        for (int pair = 0; pair < D::kPairsAtOnce; ++pair) weights[pair][tile] = pairs[pair];
      }
      for (int pair = 0; pair < D::kPairsAtOnce; ++pair) {
        const int64_t at = group * kGroup + 2 * (first + pair);
        AddPairOfRows(weights[pair], x, at, sums[group]);
      }
    }
  }
}

// With a mask, because g++ 12 warns of what its header does without one.
SLUICE_HOT_INLINE __m512 SixteenF16(const uint8_t* bytes) {
  const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes));
  return _mm512_maskz_cvtph_ps(0xFFFF, halves);
}

// Rows of x, and where the format has minima their t_g, [n_groups, input_sums_stride].
struct Rows {
  const Bf16* x;
  int64_t x_stride;
  const float* input_sums;
  int64_t input_sums_stride;
};

// kGroups records and what they add to sums [kRows, kOutputs].
template <MatrixFormat kFormat, int kGroups, int kRows>
SLUICE_HOT_INLINE void AddRecords(const Decoder<kFormat>& decoder,
                                  const uint8_t* record,
                                  const Bf16* const (&x)[kRows],
                                  const float* input_sums,
                                  int64_t input_sums_stride,
                                  float* sums) {
  constexpr PackedShape kShape = PackedShapeOf(kFormat);
  constexpr bool kHasMin = kFormat == MatrixFormat::kQ4_1;
  constexpr int64_t kAhead = kPrefetchBytes / kShape.n_bytes * kShape.n_bytes;
  for (int64_t at = 0; at < kShape.n_header_bytes; at += kLineBytes) {
    for (int group = 0; group < kGroups; ++group) {
      _mm_prefetch(record + group * kShape.n_bytes + at + kAhead, _MM_HINT_T0);
    }
  }
  __m512 groups[kGroups][kRows][kTiles];
  SumGroups<kFormat>(decoder, record + kShape.n_header_bytes, x, groups);
#pragma GCC unroll 2
  for (int group = 0; group < kGroups; ++group) {
    const uint8_t* header = record + group * kShape.n_bytes;
    for (int tile = 0; tile < kTiles; ++tile) {
      const __m512 scales = SixteenF16(header + tile * kTileRows * 2);
      const __m512 mins = SixteenF16(header + (kHasMin ? kOutputs + tile * kTileRows : 0) * 2);
#pragma GCC unroll 16
      for (int row = 0; row < kRows; ++row) {
        float* at = sums + row * kOutputs + tile * kTileRows;
        __m512 sum = _mm512_load_ps(at);
        sum = _mm512_add_ps(sum, _mm512_mul_ps(scales, groups[group][row][tile]));
        if constexpr (kHasMin) {
          const __m512 t = _mm512_set1_ps(input_sums[group * input_sums_stride + row]);
          sum = _mm512_add_ps(sum, _mm512_mul_ps(mins, t));
        }
        _mm512_store_ps(at, sum);
      }
    }
  }
}

// sums [kRows, kOutputs] of one stripe.
template <MatrixFormat kFormat, int kRows>
SLUICE_HOT_LOOP void SumStripe(const uint8_t* stripe,
                               int64_t n_groups,
                               const Rows& rows,
                               float* sums) {
  constexpr int kGroups = TakesTwoRecords(kFormat, kRows) ? 2 : 1;
  const Decoder<kFormat> decoder;
  const Bf16* x[kRows];
#pragma GCC unroll 16
  for (int row = 0; row < kRows; ++row) x[row] = rows.x + row * rows.x_stride;
  const float* input_sums = rows.input_sums;
#pragma GCC unroll 16
  for (int i = 0; i < kRows * kTiles; ++i) _mm512_store_ps(sums + i * 16, _mm512_setzero_ps());
  const uint8_t* record = stripe;
  for (int64_t group = 0; group + kGroups <= n_groups; group += kGroups) {
    AddRecords<kFormat, kGroups>(decoder, record, x, input_sums, rows.input_sums_stride, sums);
    record += kGroups * PackedShapeOf(kFormat).n_bytes;
    input_sums += kGroups * rows.input_sums_stride;
#pragma GCC unroll 16
    for (int row = 0; row < kRows; ++row) {
      x[row] += kGroups * kGroup;
      // Each address in a register: g++ else makes them from the first one and the stride, and
      // keeps what it makes on the stack (0.73 instead of 0.77 of the bf16 peak with 10 rows).
      asm("" : "+r"(x[row]));
    }
  }
  if (n_groups % kGroups != 0) {
    AddRecords<kFormat, 1>(decoder, record, x, input_sums, rows.input_sums_stride, sums);
  }
}

// columns[i][j] = rows[j][i]. The place of a value is 4 bits of row and 4 of column; each round
// turns these 8 bits by one.
SLUICE_HOT_INLINE void Transpose(__m512i (&values)[16]) {
  const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
  for (int round = 0; round < 4; ++round) {
    __m512i turned[16];
    for (int i = 0; i < 8; ++i) {
      turned[2 * i] = _mm512_permutex2var_epi32(values[i], low, values[i + 8]);
      turned[2 * i + 1] = _mm512_permutex2var_epi32(values[i], high, values[i + 8]);
    }
    for (int i = 0; i < 16; ++i) values[i] = turned[i];
  }
}

// t_g of one row, stride floats apart: 16 groups side by side.
SLUICE_HOT_LOOP void SumInputs(const Bf16* x, int64_t n_groups, int64_t stride, float* sums) {
  const __m512i ones = _mm512_set1_epi16(0x3F80);
  for (int64_t first = 0; first < n_groups; first += 16) {
    const int64_t n = n_groups - first < 16 ? n_groups - first : 16;
    __m512i pairs[16];
    for (int64_t i = 0; i < 16; ++i) {
      pairs[i] = i < n ? _mm512_loadu_si512(x + (first + i) * kGroup) : _mm512_setzero_si512();
    }
    Transpose(pairs);
    __m512 sum = _mm512_setzero_ps();
    for (const __m512i& pair : pairs) sum = AddPair(sum, pair, ones);
    alignas(64) float lanes[16];
    _mm512_store_ps(lanes, sum);
    for (int64_t i = 0; i < n; ++i) sums[(first + i) * stride] = lanes[i];
  }
}

// Outputs from `first` on, of the rows from first_row on.
SLUICE_HOT_LOOP void StoreSums(
    const Params& params, int64_t first_row, int64_t n_rows, int64_t first, const float* sums) {
  for (int64_t row = 0; row < n_rows; ++row) {
    for (int64_t tile = 0; tile < kOutputs; tile += kTileRows) {
      const int64_t n = params.weight.n_out - first - tile;
      if (n <= 0) continue;
      const auto mask = static_cast<__mmask16>(n < kTileRows ? (1U << n) - 1 : 0xFFFF);
      const __m512 sum = _mm512_load_ps(sums + row * kOutputs + tile);
      const int64_t at = (first_row + row) * params.out_stride + first + tile;
      if (params.out_f32 != nullptr) _mm512_mask_storeu_ps(params.out_f32 + at, mask, sum);
      if (params.out != nullptr) {
        _mm256_mask_storeu_epi16(params.out + at, mask, (__m256i)_mm512_cvtneps_pbh(sum));
      }
    }
  }
}

template <MatrixFormat kFormat>
auto SumStripeOf(int64_t n_rows) {
  using Sum = void (*)(const uint8_t*, int64_t, const Rows&, float*);
  static constexpr Sum kOfRows[kRowsMax] = {
      SumStripe<kFormat, 1>, SumStripe<kFormat, 2>, SumStripe<kFormat, 3>, SumStripe<kFormat, 4>,
      SumStripe<kFormat, 5>, SumStripe<kFormat, 6>, SumStripe<kFormat, 7>, SumStripe<kFormat, 8>,
      SumStripe<kFormat, 9>, SumStripe<kFormat, 10>};
  return kOfRows[n_rows - 1];
}

struct Range {
  int64_t first = 0;
  int64_t n = 0;
};

// Stripes of a block of rows.
template <MatrixFormat kFormat>
void RunBlock(const Params& params, Range rows, Range stripes) {
  constexpr bool kHasMin = kFormat == MatrixFormat::kQ4_1;
  alignas(64) float sums[kRowsMax * kOutputs];
  alignas(64) float input_sums[kHasMin ? kInputSums : 1];
  const int64_t n_groups = params.weight.n_in / kGroup;
  const int64_t stripe_bytes = n_groups * PackedShapeOf(kFormat).n_bytes;
  const Bf16* x = params.x + rows.first * params.x_stride;
  for (int64_t row = 0; row < rows.n && kHasMin; ++row) {
    SumInputs(x + row * params.x_stride, n_groups, rows.n, input_sums + row);
  }
  const int64_t n_parts = (rows.n + kRowsMax - 1) / kRowsMax;
  for (int64_t stripe = stripes.first; stripe < stripes.first + stripes.n; ++stripe) {
    const auto* records = static_cast<const uint8_t*>(params.weight.data) + stripe * stripe_bytes;
    for (int64_t part = 0; part < n_parts; ++part) {
      const int64_t from = rows.n * part / n_parts;
      const int64_t n = rows.n * (part + 1) / n_parts - from;
      const Rows of_part = {.x = x + from * params.x_stride,
                            .x_stride = params.x_stride,
                            .input_sums = input_sums + (kHasMin ? from : 0),
                            .input_sums_stride = kHasMin ? rows.n : 0};
      SumStripeOf<kFormat>(n)(records, n_groups, of_part, sums);
      StoreSums(params, rows.first + from, n, stripe * kOutputs, sums);
    }
  }
}

template <MatrixFormat kFormat>
void RunStripes(const Params& params, Range stripes) {
  const int64_t n_in = params.weight.n_in;
  int64_t n_block = kBlockInputs / n_in;
  if (n_block < kRowsMax) n_block = kRowsMax;
  if (n_block > kInputSums * kGroup / n_in) n_block = kInputSums * kGroup / n_in;
  for (int64_t first = 0; first < params.n_rows; first += n_block) {
    const int64_t n_left = params.n_rows - first;
    const Range rows = {.first = first, .n = n_left < n_block ? n_left : n_block};
    RunBlock<kFormat>(params, rows, stripes);
  }
}

}  // namespace

void Run(const Params& params, Stream& stream) {
  stream.team.Run(StripesOf(params.weight), [&params](int64_t begin, int64_t end, int32_t) {
    const simd::FlushDenormals flush(Arithmetic::kFloat32);
    const Range stripes = {.first = begin, .n = end - begin};
    switch (params.weight.format) {
      case MatrixFormat::kQ4_0:
        return RunStripes<MatrixFormat::kQ4_0>(params, stripes);
      case MatrixFormat::kQ4_1:
        return RunStripes<MatrixFormat::kQ4_1>(params, stripes);
      default:
        return RunStripes<MatrixFormat::kQ8_0>(params, stripes);
    }
  });
}

}  // namespace sluice::ops::block_linear::avx512bf16
