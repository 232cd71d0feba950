// y = x W^T for all formats and both layouts with AVX2 and FMA.
//
// A worker owns tiles of 16 outputs. It decodes 256 inputs of their weights into a panel [256][16]
// (16 KiB: half the first cache level, read once from memory), lets every row go over it, and takes
// the next inputs. Between panels the sums of up to 256 rows wait in memory, so each output stays
// one chain over all inputs, and a weight is decoded once for all these rows. Lines of a packed
// matrix hold 16 outputs side by side already; weights in rows are turned.

#include <immintrin.h>

#include <algorithm>

#include "kernels/linear/op.h"
#include "kernels/simd/dot_panel.h"
#include "kernels/simd/flush_denormals.h"
#include "tensor/buffer.h"
#include "tensor/packed.h"

namespace sluice::ops::linear::avx2 {
namespace {

#define SLUICE_INLINE SLUICE_HOT_LOOP __attribute__((always_inline)) inline

constexpr int64_t kOutputs = kTileRows;
constexpr int64_t kInputs = 256;  // even, so that no pair is cut; a multiple of all records
constexpr int64_t kRows = 256;
// 6 rows of 16 sums are 12 chains: 8 hide the latency of 4 cycles at two a cycle; and with two
// vectors of weights and an input they fill the 16 registers.
constexpr int kRowsTogether = 6;
// Up to so many rows a panel does not pay.
constexpr int64_t kFewRows = 4;
constexpr int64_t kMaxStripe = 64;
constexpr int64_t kAheadBytes = 12 << 10;

struct Workspace {
  alignas(64) float sums[kRows * kOutputs];
  alignas(64) float panel[kInputs * kOutputs];
  float x[kRowsTogether * kInputs];
  float weights[4 * kInputs];
};

struct Range {
  int64_t first = 0;
  int64_t n = 0;
};

Range RangeFrom(int64_t first, int64_t end, int64_t n_max) {
  return {.first = first, .n = std::min(n_max, end - first)};
}

// Weights in rows: panel[k][o] = W[outputs.first + o][inputs.first + k], 0 behind the last output.
// weights: room for four rows, which are turned together.
void DecodeRows(const Matrix& matrix, Range outputs, Range inputs, float* weights, float* panel) {
  for (int64_t o = 0; o < kOutputs; ++o) {
    float* row = weights + o % 4 * kInputs;
    if (o < outputs.n) {
      DecodeMatrixPart(matrix, outputs.first + o, inputs.first, inputs.n, row);
      if (IsQuantized(matrix.format)) {
        for (int64_t i = 0; i < inputs.n; ++i) row[i] += 0.0F;  // of codes -0 is 0
      }
    } else {
      std::fill_n(row, inputs.n, 0.0F);
    }
    if (o % 4 == 3) simd::StoreInPanel(weights, kInputs, inputs.n, panel + o - 3);
  }
}

// Packed formats. A line is kLineInputs inputs of 16 outputs; Decode gives those of 8 of them, half
// 0 or 1, [kLineInputs] vectors.

__m256i LoadHalf(const uint8_t* line, int half) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(line) + half);
}

// Where a tile stands in a record, and which record of the matrix it is.
struct Place {
  const uint8_t* record = nullptr;
  int64_t index = 0;
  int64_t tile = 0;
};

struct PackedBf16 {
  static constexpr MatrixFormat kFormat = MatrixFormat::kBf16;
  static constexpr int kLineInputs = 2;
  struct Scales {};

  static Scales ScalesOf(const Matrix& /*matrix*/, const Place& /*place*/) { return {}; }
  static SLUICE_INLINE void Decode(const uint8_t* line,
                                   int half,
                                   const Scales& /*scales*/,
                                   __m256 (&weights)[kLineInputs]) {
    const __m256i pairs = LoadHalf(line, half);
    weights[0] = _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16));
    weights[1] = _mm256_castsi256_ps(_mm256_and_si256(pairs, _mm256_set1_epi32(-0x10000)));
  }
};

// The low 16 bits of the lanes and the high ones, each as 8 words.
struct Words {
  __m128i low;
  __m128i high;
};
SLUICE_INLINE Words SplitWords(__m256i lanes) {
  const __m128i order = _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
  const __m256i grouped = _mm256_shuffle_epi8(lanes, _mm256_broadcastsi128_si256(order));
  const __m256i halves = _mm256_permute4x64_epi64(grouped, 0b11'01'10'00);
  return {_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1)};
}

struct PackedF16 {
  static constexpr MatrixFormat kFormat = MatrixFormat::kF16;
  static constexpr int kLineInputs = 2;
  struct Scales {};

  static Scales ScalesOf(const Matrix& /*matrix*/, const Place& /*place*/) { return {}; }
  static SLUICE_INLINE void Decode(const uint8_t* line,
                                   int half,
                                   const Scales& /*scales*/,
                                   __m256 (&weights)[kLineInputs]) {
    const Words words = SplitWords(LoadHalf(line, half));
    weights[0] = _mm256_cvtph_ps(words.low);
    weights[1] = _mm256_cvtph_ps(words.high);
  }
};

struct PackedFp4 {
  static constexpr MatrixFormat kFormat = MatrixFormat::kFp4;
  static constexpr int kLineInputs = 8;
  struct Scales {
    __m256 of[2];
  };

  // 2^(kPackedExponent - 127 - byte).
  static SLUICE_INLINE Scales ScalesOf(const Matrix& /*matrix*/, const Place& place) {
    Scales scales;
    for (int half = 0; half < 2; ++half) {
      const uint8_t* bytes = place.record + place.tile * kTileRows + half * 8;
      const __m128i loaded = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(bytes));
      const __m256i exponent =
          _mm256_sub_epi32(_mm256_set1_epi32(kPackedExponent), _mm256_cvtepu8_epi32(loaded));
      scales.of[half] = _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23));
    }
    return scales;
  }
  // Values of 8 outputs from the codes in the low 4 bits of `codes`, whose bit 3 is the sign.
  static SLUICE_INLINE __m256 Values(__m256i codes, __m256 scales) {
    const __m256 magnitudes = _mm256_setr_ps(0, 0.5F, 1, 1.5F, 2, 3, 4, 6);
    const __m256 magnitude = _mm256_permutevar8x32_ps(magnitudes, codes);  // by the low 3 bits
    const __m256i sign = _mm256_slli_epi32(_mm256_and_si256(codes, _mm256_set1_epi32(8)), 28);
    return _mm256_mul_ps(_mm256_or_ps(magnitude, _mm256_castsi256_ps(sign)), scales);
  }
  static SLUICE_INLINE void Decode(const uint8_t* line,
                                   int half,
                                   const Scales& scales,
                                   __m256 (&weights)[kLineInputs]) {
    const __m256i codes = LoadHalf(line, half);
#pragma GCC unroll 4
    for (int pair = 0; pair < 4; ++pair) {
      weights[2 * pair] = Values(_mm256_srli_epi32(codes, 4 * pair), scales.of[half]);
      weights[2 * pair + 1] = Values(_mm256_srli_epi32(codes, 16 + 4 * pair), scales.of[half]);
    }
  }
};

struct PackedFp8 {
  static constexpr MatrixFormat kFormat = MatrixFormat::kFp8;
  static constexpr int kLineInputs = 4;
  struct Scales {
    __m256 all;
  };

  // 2^8 times the record's: E4M3 is read as f16, whose exponent counts from 2^8 less and whose
  // denormals no flag flushes.
  static SLUICE_INLINE Scales ScalesOf(const Matrix& matrix, const Place& place) {
    const int exponent = matrix.scales[place.index] + 8;
    return {_mm256_castsi256_ps(_mm256_set1_epi32(exponent << 23))};
  }
  static SLUICE_INLINE void Decode(const uint8_t* line,
                                   int half,
                                   const Scales& scales,
                                   __m256 (&weights)[kLineInputs]) {
    const __m256i codes = LoadHalf(line, half);  // 4 outputs in each 16 bytes: see packed.h
    // On top of words the bytes of inputs 0 and 1, then 2 and 3, by output.
    const __m256i ordered[2] = {_mm256_unpacklo_epi8(_mm256_setzero_si256(), codes),
                                _mm256_unpackhi_epi8(_mm256_setzero_si256(), codes)};
#pragma GCC unroll 2
    for (int pair = 0; pair < 2; ++pair) {
      const __m256i sign = _mm256_and_si256(ordered[pair], _mm256_set1_epi16(-0x8000));
      const __m256i magnitude = _mm256_srli_epi16(_mm256_andnot_si256(sign, ordered[pair]), 1);
      const Words words = SplitWords(_mm256_or_si256(sign, magnitude));
      weights[2 * pair] = _mm256_mul_ps(_mm256_cvtph_ps(words.low), scales.all);
      weights[2 * pair + 1] = _mm256_mul_ps(_mm256_cvtph_ps(words.high), scales.all);
    }
  }
};

// Whole records of one tile, inputs.n or more inputs.
template <typename Packed>
SLUICE_HOT_LOOP void DecodeTile(const Matrix& matrix, int64_t tile, Range inputs, float* panel) {
  constexpr PackedShape kShape = PackedShapeOf(Packed::kFormat);
  constexpr int64_t kTiles = kShape.n_rows / kTileRows;
  const int64_t first = tile / kTiles * RecordsOf(matrix) + inputs.first / kShape.n_inputs;
  const int64_t n_records = (inputs.n + kShape.n_inputs - 1) / kShape.n_inputs;
  const auto* data = static_cast<const uint8_t*>(matrix.data);
  for (int64_t i = first; i < first + n_records; ++i) {
    const Place place{.record = data + i * kShape.n_bytes, .index = i, .tile = tile % kTiles};
    const auto scales = Packed::ScalesOf(matrix, place);
    const uint8_t* line = place.record + kShape.n_header_bytes + place.tile * kLineBytes;
    for (int j = 0; j < kShape.n_inputs / Packed::kLineInputs; ++j) {
      for (int half = 0; half < 2; ++half) {
        __m256 weights[Packed::kLineInputs];
        Packed::Decode(line, half, scales, weights);
        for (int k = 0; k < Packed::kLineInputs; ++k) {
          _mm256_storeu_ps(panel + k * kOutputs + half * 8, weights[k]);
        }
      }
      panel += Packed::kLineInputs * kOutputs;
      line += kTiles * kLineBytes;
    }
  }
}

// body(packed format)
template <typename Body>
void WithFormat(MatrixFormat format, const Body& body) {
  if (format == MatrixFormat::kFp4) return body(PackedFp4());
  if (format == MatrixFormat::kFp8) return body(PackedFp8());
  if (format == MatrixFormat::kF16) return body(PackedF16());
  body(PackedBf16());
}

// sums [n_rows, 16] += x [n_rows, kInputs] . panel [n, 16]: see op.h.
template <int kN, bool kFused>
SLUICE_HOT_LOOP void AddProducts(const float* x, const float* panel, int64_t n, float* sums) {
  __m256 sum[kN][2];
#pragma GCC unroll 6
  for (int row = 0; row < kN; ++row) {
    sum[row][0] = _mm256_loadu_ps(sums + row * kOutputs);
    sum[row][1] = _mm256_loadu_ps(sums + row * kOutputs + 8);
  }
  const auto add = [&](int64_t k) SLUICE_HOT_LOOP __attribute__((always_inline)) {
    const __m256 low = _mm256_loadu_ps(panel + k * kOutputs);
    const __m256 high = _mm256_loadu_ps(panel + k * kOutputs + 8);
#pragma GCC unroll 6
    for (int row = 0; row < kN; ++row) {
      const __m256 in = _mm256_broadcast_ss(x + row * kInputs + k);
      if constexpr (kFused) {
        sum[row][0] = _mm256_fmadd_ps(in, low, sum[row][0]);
        sum[row][1] = _mm256_fmadd_ps(in, high, sum[row][1]);
      } else {
        sum[row][0] = _mm256_add_ps(sum[row][0], _mm256_mul_ps(in, low));
        sum[row][1] = _mm256_add_ps(sum[row][1], _mm256_mul_ps(in, high));
      }
    }
  };
  for (int64_t k = 0; k + 1 < n; k += 2) {
    add(k + 1);
    add(k);
  }
  if (n % 2 != 0) add(n - 1);
#pragma GCC unroll 6
  for (int row = 0; row < kN; ++row) {
    _mm256_storeu_ps(sums + row * kOutputs, sum[row][0]);
    _mm256_storeu_ps(sums + row * kOutputs + 8, sum[row][1]);
  }
}

using Adder = void (*)(const float* x, const float* panel, int64_t n, float* sums);
constexpr Adder kFused[] = {&AddProducts<1, true>, &AddProducts<2, true>, &AddProducts<3, true>,
                            &AddProducts<4, true>, &AddProducts<5, true>, &AddProducts<6, true>};
constexpr Adder kRounded[] = {&AddProducts<1, false>, &AddProducts<2, false>,
                              &AddProducts<3, false>, &AddProducts<4, false>,
                              &AddProducts<5, false>, &AddProducts<6, false>};

SLUICE_HOT_LOOP void LoadInputs(const Bf16* x, int64_t n, float* out) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(x + i));
    const __m256i wide = _mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16);
    _mm256_storeu_ps(out + i, _mm256_castsi256_ps(wide));
  }
  for (; i < n; ++i) out[i] = ToFloat(x[i]);
}

void AddPanel(const Params& params, Range rows, Range inputs, Workspace& work) {
  const simd::FlushDenormals flush(Arithmetic::kFloat32);
  const Adder* adders = params.weight.format == MatrixFormat::kF32 ? kRounded : kFused;
  for (int64_t row = 0; row < rows.n; row += kRowsTogether) {
    const int64_t n = std::min<int64_t>(kRowsTogether, rows.n - row);
    for (int64_t i = 0; i < n; ++i) {
      const Bf16* x = params.x + (rows.first + row + i) * params.x_stride + inputs.first;
      LoadInputs(x, inputs.n, work.x + i * kInputs);
    }
    adders[n - 1](work.x, work.panel, inputs.n, work.sums + row * kOutputs);
  }
}

void StoreSums(const Params& params, Range rows, Range outputs, const float* sums, int64_t stride) {
  for (int64_t row = 0; row < rows.n; ++row) {
    const int64_t at = (rows.first + row) * params.out_stride + outputs.first;
    for (int64_t o = 0; o < outputs.n; ++o) {
      const float sum = sums[row * stride + o];
      if (params.out != nullptr) params.out[at + o] = ToBf16(sum);
      if (params.out_f32 != nullptr) params.out_f32[at + o] = sum;
    }
  }
}

void RunTile(const Params& params, int64_t tile, Workspace& work) {
  const Matrix& weight = params.weight;
  const Range outputs = RangeFrom(tile * kOutputs, weight.n_out, kOutputs);
  for (int64_t first_row = 0; first_row < params.n_rows; first_row += kRows) {
    const Range rows = RangeFrom(first_row, params.n_rows, kRows);
    std::fill_n(work.sums, rows.n * kOutputs, 0.0F);
    for (int64_t first_input = 0; first_input < weight.n_in; first_input += kInputs) {
      const Range inputs = RangeFrom(first_input, weight.n_in, kInputs);
      if (weight.layout == MatrixLayout::kPacked) {
        WithFormat(weight.format, [&]<typename Packed>(Packed) {
          DecodeTile<Packed>(weight, tile, inputs, work.panel);
        });
      } else {
        DecodeRows(weight, outputs, inputs, work.weights, work.panel);
      }
      AddPanel(params, rows, inputs, work);
    }
    StoreSums(params, rows, outputs, work.sums, kOutputs);
  }
}

// Inputs of n rows as floats.
struct FloatRows {
  const float* at = nullptr;
  int64_t stride = 0;
  int64_t n = 0;
};

// 8 sums of each row += its next kN inputs . weights.
template <int kN>
SLUICE_INLINE void AddHalfLine(const __m256 (&weights)[kN],
                               const FloatRows& x,
                               float* sums,
                               int64_t sums_stride) {
  for (int64_t row = 0; row < x.n; ++row) {
    const float* in = x.at + row * x.stride;
    float* out = sums + row * sums_stride;
    __m256 sum = _mm256_loadu_ps(out);
#pragma GCC unroll 4
    for (int k = 0; k < kN; k += 2) {
      sum = _mm256_fmadd_ps(_mm256_broadcast_ss(in + k + 1), weights[k + 1], sum);
      sum = _mm256_fmadd_ps(_mm256_broadcast_ss(in + k), weights[k], sum);
    }
    _mm256_storeu_ps(out, sum);
  }
}

// Few rows of a packed matrix: a stripe is read as it stands, in one stream; the weights of half a
// line go from registers to the sums, which are in memory. x [n_rows, x_stride] floats.
template <typename Packed>
SLUICE_HOT_LOOP void RunStripe(
    const Matrix& matrix, int64_t stripe, const float* x, int64_t n_rows, float* sums) {
  constexpr PackedShape kShape = PackedShapeOf(Packed::kFormat);
  constexpr int64_t kTiles = kShape.n_rows / kTileRows;
  constexpr int64_t kAhead = kAheadBytes / kShape.n_bytes * kShape.n_bytes;
  const int64_t n_records = RecordsOf(matrix);
  const int64_t x_stride = n_records * kShape.n_inputs;
  const auto* record =
      static_cast<const uint8_t*>(matrix.data) + stripe * n_records * kShape.n_bytes;
  std::fill_n(sums, n_rows * kShape.n_rows, 0.0F);
  for (int64_t i = 0; i < n_records; ++i) {
    typename Packed::Scales scales[kTiles];
    for (int64_t tile = 0; tile < kTiles; ++tile) {
      scales[tile] = Packed::ScalesOf(
          matrix, {.record = record, .index = stripe * n_records + i, .tile = tile});
    }
    const uint8_t* line = record + kShape.n_header_bytes;
    for (int j = 0; j < kShape.n_inputs / Packed::kLineInputs; ++j) {
      for (int64_t half_tile = 0; half_tile < 2 * kTiles; ++half_tile) {
        const uint8_t* at = line + half_tile / 2 * kLineBytes;
        _mm_prefetch(at + kAhead, _MM_HINT_T0);
        __m256 weights[Packed::kLineInputs];
        Packed::Decode(at, half_tile % 2, scales[half_tile / 2], weights);
        AddHalfLine(weights, {.at = x, .stride = x_stride, .n = n_rows}, sums + half_tile * 8,
                    kShape.n_rows);
      }
      x += Packed::kLineInputs;
      line += kTiles * kLineBytes;
    }
    record += kShape.n_bytes;
  }
}

void RunFewRows(const Params& params, const float* x, int64_t begin, int64_t end) {
  const Matrix& weight = params.weight;
  const int64_t n_together = PackedShapeOf(weight.format).n_rows;
  alignas(64) float sums[kFewRows * kMaxStripe];
  for (int64_t stripe = begin; stripe < end; ++stripe) {
    // For decoding, too: weights of packed matrices are normal numbers.
    const simd::FlushDenormals flush(Arithmetic::kFloat32);
    WithFormat(weight.format, [&]<typename Packed>(Packed) {
      RunStripe<Packed>(weight, stripe, x, params.n_rows, sums);
    });
    StoreSums(params, {.first = 0, .n = params.n_rows},
              RangeFrom(stripe * n_together, weight.n_out, n_together), sums, n_together);
  }
}

}  // namespace

void Run(const Params& params, Stream& stream) {
  const Matrix& weight = params.weight;
  if (weight.layout == MatrixLayout::kPacked && params.n_rows <= kFewRows) {
    const int64_t x_stride = RecordsOf(weight) * PackedShapeOf(weight.format).n_inputs;
    const int64_t n_bytes = params.n_rows * x_stride * int64_t{sizeof(float)};
    auto* x = reinterpret_cast<float*>(stream.Room(n_bytes).data());
    for (int64_t row = 0; row < params.n_rows; ++row) {
      float* in = x + row * x_stride;
      LoadInputs(params.x + row * params.x_stride, weight.n_in, in);
      // Times a weight of +0 it leaves every sum as it is, -0 too.
      std::fill(in + weight.n_in, in + x_stride, -0.0F);
    }
    stream.team.Run(StripesOf(weight), [&](int64_t begin, int64_t end, int32_t) {
      RunFewRows(params, x, begin, end);
    });
    return;
  }
  const int64_t n_tiles = (weight.n_out + kOutputs - 1) / kOutputs;
  stream.team.Run(n_tiles, [&](int64_t begin, int64_t end, int32_t) {
    Workspace work;
    for (int64_t tile = begin; tile < end; ++tile) RunTile(params, tile, work);
  });
}

}  // namespace sluice::ops::linear::avx2
