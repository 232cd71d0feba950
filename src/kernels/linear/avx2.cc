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
#include "tensor/packed.h"

namespace sluice::ops::linear::avx2 {
namespace {

constexpr int64_t kOutputs = kTileRows;
constexpr int64_t kInputs = 256;  // even, so that no pair is cut; a multiple of all records
constexpr int64_t kRows = 256;
// 6 rows of 16 sums are 12 chains: 8 hide the latency of 4 cycles at two a cycle; and with two
// vectors of weights and an input they fill the 16 registers.
constexpr int kRowsTogether = 6;

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

__m256i LoadHalf(const uint8_t* line, int half) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(line) + half);
}

// A line is inputs 0 and 1; panel [2][16].
void DecodeBf16Line(const uint8_t* line, float* panel) {
  for (int half = 0; half < 2; ++half) {
    const __m256i pairs = LoadHalf(line, half);
    const __m256i odd = _mm256_and_si256(pairs, _mm256_set1_epi32(-0x10000));
    const __m256i even = _mm256_slli_epi32(pairs, 16);
    _mm256_storeu_ps(panel + half * 8, _mm256_castsi256_ps(even));
    _mm256_storeu_ps(panel + kOutputs + half * 8, _mm256_castsi256_ps(odd));
  }
}

// Values of 8 outputs from the codes in the low 4 bits of `codes`, whose bit 3 is the sign.
__m256 Fp4Values(__m256i codes, __m256 scales) {
  const __m256 magnitudes = _mm256_setr_ps(0, 0.5F, 1, 1.5F, 2, 3, 4, 6);
  const __m256 magnitude = _mm256_permutevar8x32_ps(magnitudes, codes);  // by the low 3 bits
  const __m256i sign = _mm256_slli_epi32(_mm256_and_si256(codes, _mm256_set1_epi32(8)), 28);
  return _mm256_mul_ps(_mm256_or_ps(magnitude, _mm256_castsi256_ps(sign)), scales);
}

// A line is 8 inputs; panel [8][16], scales of 8 outputs for each half.
void DecodeFp4Line(const uint8_t* line, const __m256 (&scales)[2], float* panel) {
  for (int half = 0; half < 2; ++half) {
    __m256i codes = LoadHalf(line, half);
    for (int pair = 0; pair < 4; ++pair) {
      float* out = panel + pair * 2 * kOutputs + half * 8;
      _mm256_storeu_ps(out, Fp4Values(codes, scales[half]));
      _mm256_storeu_ps(out + kOutputs, Fp4Values(_mm256_srli_epi32(codes, 16), scales[half]));
      codes = _mm256_srli_epi32(codes, 4);
    }
  }
}

// 2^(kPackedExponent - 127 - byte) of 8 rows.
__m256 Fp4Scales(const uint8_t* bytes) {
  const __m256i byte =
      _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(bytes)));
  const __m256i exponent = _mm256_sub_epi32(_mm256_set1_epi32(kPackedExponent), byte);
  return _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23));
}

// A line is 4 inputs; panel [4][16]. E4M3 is read as f16, whose exponent counts from 2^8 less and
// whose denormals no flag flushes; scale: 2^8 times the record's.
void DecodeFp8Line(const uint8_t* line, __m256 scale, float* panel) {
  // The bytes of one input of four rows, then those of the next, each on top of a word.
  const __m128i first = _mm_setr_epi8(-1, 0, -1, 2, -1, 4, -1, 6, -1, 1, -1, 3, -1, 5, -1, 7);
  for (int quarter = 0; quarter < 4; ++quarter) {
    const __m128i codes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(line) + quarter);
    for (int pair = 0; pair < 2; ++pair) {
      const __m128i half = pair == 0 ? codes : _mm_srli_si128(codes, 8);
      const __m128i words = _mm_shuffle_epi8(half, first);
      const __m128i sign = _mm_and_si128(words, _mm_set1_epi16(static_cast<int16_t>(0x8000)));
      const __m128i magnitude = _mm_srli_epi16(_mm_andnot_si128(sign, words), 1);
      const __m256 values = _mm256_mul_ps(_mm256_cvtph_ps(_mm_or_si128(sign, magnitude)), scale);
      float* out = panel + pair * 2 * kOutputs + quarter * 4;
      _mm_storeu_ps(out, _mm256_castps256_ps128(values));
      _mm_storeu_ps(out + kOutputs, _mm256_extractf128_ps(values, 1));
    }
  }
}

// Whole records of one tile, inputs.n or more inputs.
SLUICE_HOT_LOOP void DecodePacked(const Matrix& matrix, int64_t tile, Range inputs, float* panel) {
  const PackedShape shape = PackedShapeOf(matrix.format);
  const int64_t n_tiles = shape.n_rows / kTileRows;
  const int64_t in_stripe = tile % n_tiles;
  const int64_t first_record = tile / n_tiles * RecordsOf(matrix) + inputs.first / shape.n_inputs;
  const int64_t n_records = (inputs.n + shape.n_inputs - 1) / shape.n_inputs;
  for (int64_t i = 0; i < n_records; ++i) {
    const uint8_t* record =
        static_cast<const uint8_t*>(matrix.data) + (first_record + i) * shape.n_bytes;
    const uint8_t* line = record + shape.n_header_bytes + in_stripe * kLineBytes;
    float* out = panel + i * shape.n_inputs * kOutputs;
    if (matrix.format == MatrixFormat::kBf16) {
      DecodeBf16Line(line, out);
    } else if (matrix.format == MatrixFormat::kFp4) {
      const uint8_t* bytes = record + in_stripe * kTileRows;
      const __m256 scales[2] = {Fp4Scales(bytes), Fp4Scales(bytes + 8)};
      for (int j = 0; j < 4; ++j) {
        DecodeFp4Line(line + j * n_tiles * kLineBytes, scales, out + j * 8 * kOutputs);
      }
    } else {
      const int exponent = matrix.scales[first_record + i] + 8;
      const __m256 scale = _mm256_castsi256_ps(_mm256_set1_epi32(exponent << 23));
      for (int j = 0; j < 8; ++j) {
        DecodeFp8Line(line + j * n_tiles * kLineBytes, scale, out + j * 4 * kOutputs);
      }
    }
  }
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

void StoreSums(const Params& params, Range rows, Range outputs, const float* sums) {
  for (int64_t row = 0; row < rows.n; ++row) {
    const int64_t at = (rows.first + row) * params.out_stride + outputs.first;
    for (int64_t o = 0; o < outputs.n; ++o) {
      const float sum = sums[row * kOutputs + o];
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
        DecodePacked(weight, tile, inputs, work.panel);
      } else {
        DecodeRows(weight, outputs, inputs, work.weights, work.panel);
      }
      AddPanel(params, rows, inputs, work);
    }
    StoreSums(params, rows, outputs, work.sums);
  }
}

}  // namespace

void Run(const Params& params, Stream& stream) {
  const int64_t n_tiles = (params.weight.n_out + kOutputs - 1) / kOutputs;
  stream.team.Run(n_tiles, [&](int64_t begin, int64_t end, int32_t) {
    Workspace work;
    for (int64_t tile = begin; tile < end; ++tile) RunTile(params, tile, work);
  });
}

}  // namespace sluice::ops::linear::avx2
