// Attention with shared keys and values by AVX2 and FMA, denormals flushed.
//
// A tile of 64 positions becomes float32 once for all queries of an item, keys turned so that
// positions lie side by side. Both products are then sums of 32 numbers, four vectors, of up to 3
// queries: 12 of 16 registers, and with chains of 4 cycles more than the 8 that hide them.
// A span's scores wait in the second cache level for its largest one.

#include <immintrin.h>

#include "kernels/gqa_attention/items.h"
#include "kernels/gqa_attention/op.h"
#include "kernels/gqa_attention/tiles.h"
#include "kernels/simd/dot_panel.h"
#include "kernels/simd/exp2.h"

namespace sluice::ops::gqa_attention::avx2 {
namespace {

#define SLUICE_HOT_INLINE SLUICE_HOT_LOOP __attribute__((always_inline)) inline

constexpr int32_t kColumns = 32;  // of these, or of components, of which sums are in registers
constexpr int kVectors = kColumns / 8;
constexpr int kTogether = 3;  // queries
// Queries of an item: turning a tile is then a twentieth of the work.
constexpr int32_t kQueries = 48;
constexpr int32_t kMaxQueries = kQueries > kMaxGroup ? kQueries : kMaxGroup;

// Query i is head i % group of row i / group.
struct Workspace {
  alignas(64) float q[kMaxQueries * kMaxHeadDim];
  alignas(64) float keys[kTile * kMaxHeadDim];    // [kColumns positions, components, positions]
  alignas(64) float values[kTile * kMaxHeadDim];  // [kColumns components, positions, components]
  alignas(64) float scores[kMaxQueries * kSpan];
  alignas(64) float probs[kMaxQueries * kSpan];
  alignas(64) float sums[kMaxQueries * kMaxHeadDim];  // of a span
  alignas(64) float totals[kMaxQueries * kMaxHeadDim];
  float weights[kMaxQueries];
  float tops[kMaxQueries];
  float span_weights[kMaxQueries];
  float span_tops[kMaxQueries];
  int32_t n_seen[kMaxQueries];  // positions of the span
  int32_t n_queries;
  int32_t group;
};

// The n components of a row from `first` on, 8 at most, as float32; zeros behind them.
SLUICE_HOT_INLINE __m256 Components(const uint8_t* row, int32_t n) {
  __m128i bits = _mm_setzero_si128();
  if (n >= 8) {
    bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(row));
  } else {
    alignas(16) uint16_t some[8] = {};
    for (int32_t i = 0; i < n; ++i) __builtin_memcpy(some + i, row + 2 * i, sizeof *some);
    bits = _mm_load_si128(reinterpret_cast<const __m128i*>(some));
  }
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}

// One in four parts of a line asks for it.
SLUICE_HOT_INLINE void Prefetch(const uint8_t* row, int32_t first) {
  if (first % 32 == 0) _mm_prefetch(reinterpret_cast<const char*>(row), _MM_HINT_T0);
}

// columns[i][j] = rows[j][i]. The place of a value is 3 bits of row and 3 of column; each round
// turns these 6 bits by one, within halves of 16 bytes, the last one also between them.
SLUICE_HOT_INLINE void Transpose(__m256 (&values)[8]) {
  __m256 turned[8];
  for (int i = 0; i < 4; ++i) {
    turned[2 * i] = _mm256_unpacklo_ps(values[2 * i], values[2 * i + 1]);
    turned[2 * i + 1] = _mm256_unpackhi_ps(values[2 * i], values[2 * i + 1]);
  }
  __m256 fours[8];  // [half of the rows, column of a half]
  for (int half = 0; half < 2; ++half) {
    for (int i = 0; i < 2; ++i) {
      const __m256 a = turned[4 * half + i];
      const __m256 b = turned[4 * half + i + 2];
      fours[4 * half + 2 * i] = _mm256_shuffle_ps(a, b, 0x44);
      fours[4 * half + 2 * i + 1] = _mm256_shuffle_ps(a, b, 0xEE);
    }
  }
  for (int i = 0; i < 4; ++i) {
    values[i] = _mm256_permute2f128_ps(fours[i], fours[4 + i], 0x20);
    values[4 + i] = _mm256_permute2f128_ps(fours[i], fours[4 + i], 0x31);
  }
}

// keys[component][position] of the first n positions, 8 at a time.
SLUICE_HOT_LOOP __attribute__((noinline)) void TurnKeys(const Tile& tile,
                                                        int32_t n,
                                                        int32_t head_dim,
                                                        float* keys) {
  const int64_t stride = tile.stride;
  for (int32_t column = 0; column < n; column += 8) {
    float* panel = keys + column / kColumns * (kMaxHeadDim * kColumns) + column % kColumns;
    for (int32_t first = 0; first < head_dim; first += 8) {
      const uint8_t* row = tile.rows + column * stride + first * 2;
      const uint8_t* later = tile.later + column * stride + first * 2;
      __m256 columns[8];
#pragma GCC unroll 8
      for (__m256& values : columns) {
        values = Components(row, head_dim - first);
        Prefetch(later, first);
        row += stride;
        later += stride;
      }
      Transpose(columns);
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i) _mm256_store_ps(panel + (first + i) * kColumns, columns[i]);
    }
  }
}

// values[position][component] of the first n positions.
SLUICE_HOT_LOOP __attribute__((noinline)) void LoadValues(const Tile& tile,
                                                          int32_t n,
                                                          int32_t head_dim,
                                                          float* values) {
  for (int32_t first = 0; first < head_dim; first += 8) {
    const uint8_t* row = tile.rows + first * 2;
    const uint8_t* later = tile.later + first * 2;
    float* panel = values + first / kColumns * (kTile * kColumns) + first % kColumns;
    for (int32_t i = 0; i < n; ++i) {
      _mm256_store_ps(panel + i * kColumns, Components(row, head_dim - first));
      Prefetch(later, first);
      row += tile.stride;
      later += tile.stride;
    }
  }
}

// sums[n][j] += x[n][i] panel[i][j] for inputs [first, first + 2), the odd one first.
template <int kN, int kStride>
SLUICE_HOT_INLINE void AddPairs(const float* x,
                                const float* panel,
                                int32_t n_inputs,
                                __m256 (&sums)[kN][kVectors]) {
  for (int32_t pair = 0; pair < n_inputs; pair += 2) {
#pragma GCC unroll 2
    for (int32_t k = pair + 1; k >= pair; --k) {
      __m256 inputs[kN];
#pragma GCC unroll 3
      for (int n = 0; n < kN; ++n) inputs[n] = _mm256_broadcast_ss(x + n * kStride + k);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        const __m256 column = _mm256_load_ps(panel + k * kColumns + v * 8);
#pragma GCC unroll 3
        for (int n = 0; n < kN; ++n) sums[n][v] = _mm256_fmadd_ps(inputs[n], column, sums[n][v]);
      }
    }
  }
}

// Of kN queries and the positions of a tile.
template <int kN>
SLUICE_HOT_LOOP void Score(
    const float* q, const float* keys, int32_t head_dim, float factor, float* scores) {
  for (int32_t column = 0; column < kTile; column += kColumns) {
    __m256 sums[kN][kVectors];
    for (auto& row : sums) {
      for (__m256& sum : row) sum = _mm256_setzero_ps();
    }
    AddPairs<kN, kMaxHeadDim>(q, keys + column * kMaxHeadDim, head_dim, sums);
#pragma GCC unroll 3
    for (int n = 0; n < kN; ++n) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        _mm256_store_ps(scores + n * kSpan + column + v * 8,
                        _mm256_mul_ps(sums[n][v], _mm256_set1_ps(factor)));
      }
    }
  }
}

// sums [kN, kColumns components] += probs . values of n positions.
template <int kN>
SLUICE_HOT_LOOP void AddValues(const float* probs, const float* values, int32_t n, float* sums) {
  __m256 sum[kN][kVectors];
#pragma GCC unroll 3
  for (int i = 0; i < kN; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sum[i][v] = _mm256_load_ps(sums + i * kMaxHeadDim + v * 8);
  }
  AddPairs<kN, kSpan>(probs, values, n - n % 2, sum);
  if (n % 2 != 0) {
    // Only the even one: the other one's value may be anything.
    alignas(32) float alone[2 * kColumns] = {};
    for (int32_t i = 0; i < kColumns; ++i) alone[i] = values[(n - 1) * kColumns + i];
    AddPairs<kN, kSpan>(probs + n - 1, alone, 2, sum);
  }
#pragma GCC unroll 3
  for (int i = 0; i < kN; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) _mm256_store_ps(sums + i * kMaxHeadDim + v * 8, sum[i][v]);
  }
}

// simd::Exp2. max gives its second operand for NaN.
SLUICE_HOT_INLINE __m256 Exp2(__m256 x) {
  const __m256 round = _mm256_set1_ps(simd::kExp2Round);
  const __m256 bounded = _mm256_max_ps(_mm256_set1_ps(simd::kExp2Lowest), x);
  const __m256 shifted = _mm256_add_ps(bounded, round);
  const __m256 f = _mm256_sub_ps(bounded, _mm256_sub_ps(shifted, round));
  __m256 p = _mm256_fmadd_ps(_mm256_set1_ps(simd::kExp2C3), f, _mm256_set1_ps(simd::kExp2C2));
  p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(simd::kExp2C1));
  p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(simd::kExp2C0));
  p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(1.0F));
  const __m256i exponent = _mm256_slli_epi32(_mm256_castps_si256(shifted), 23);
  return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), exponent));
}

SLUICE_HOT_INLINE float Exp2(float x) { return _mm256_cvtss_f32(Exp2(_mm256_set1_ps(x))); }

// ToBf16 in each lane, as bits above.
SLUICE_HOT_INLINE __m256 RoundToBf16(__m256 x) {
  const __m256i bits = _mm256_castps_si256(x);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i half = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF));
  const __m256i rounded =
      _mm256_and_si256(_mm256_add_epi32(bits, half), _mm256_set1_epi32(-0x10000));
  const __m256 is_nan = _mm256_cmp_ps(x, x, _CMP_UNORD_Q);
  return _mm256_blendv_ps(_mm256_castsi256_ps(rounded), x, is_nan);
}

// All ones in the first n lanes.
SLUICE_HOT_INLINE __m256 FirstOf(int32_t n) {
  const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(n), lanes));
}

// Lanes 0 to 7 and 8 to 15: i and i + 8, i + 4, i + 2, i + 1, as simd/lane_sum.h.
SLUICE_HOT_INLINE float SumOfLanes(__m256 low, __m256 high) {
  const __m256 eight = _mm256_add_ps(low, high);
  __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  four = _mm_add_ps(four, _mm_permute_ps(four, 0x4E));
  four = _mm_add_ps(four, _mm_permute_ps(four, 0xB1));
  return _mm_cvtss_f32(four);
}

SLUICE_HOT_INLINE float LargestOfLanes(__m256 x) {
  __m128 four = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  four = _mm_max_ps(four, _mm_permute_ps(four, 0x4E));
  four = _mm_max_ps(four, _mm_permute_ps(four, 0xB1));
  return _mm_cvtss_f32(four);
}

SLUICE_HOT_LOOP __attribute__((noinline)) void Soften(int32_t query, Workspace& work) {
  const float* scores = work.scores + query * kSpan;
  float* probs = work.probs + query * kSpan;
  const int32_t n = work.n_seen[query];
  const __m256 lowest = _mm256_set1_ps(-__builtin_inff());
  __m256 tops = lowest;
  for (int32_t i = 0; i < n; i += 8) {
    const __m256 seen = _mm256_blendv_ps(lowest, _mm256_load_ps(scores + i), FirstOf(n - i));
    tops = _mm256_max_ps(seen, tops);
  }
  const float top = LargestOfLanes(tops);
  __m256 weights[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
  for (int32_t i = 0; i < n; i += 8) {
    const __m256 prob = Exp2(_mm256_sub_ps(_mm256_load_ps(scores + i), _mm256_set1_ps(top)));
    const __m256 rounded = _mm256_and_ps(RoundToBf16(prob), FirstOf(n - i));
    _mm256_store_ps(probs + i, rounded);
    weights[i / 8 % 2] = _mm256_add_ps(weights[i / 8 % 2], rounded);
  }
  work.span_tops[query] = top;
  work.span_weights[query] = SumOfLanes(weights[0], weights[1]);
}

// kOfN[n - 1] takes n queries.
using ScoreN = void (*)(const float*, const float*, int32_t, float, float*);
constexpr ScoreN kScoreOf[kTogether] = {Score<1>, Score<2>, Score<3>};
using AddValuesN = void (*)(const float*, const float*, int32_t, float*);
constexpr AddValuesN kAddValuesOf[kTogether] = {AddValues<1>, AddValues<2>, AddValues<3>};

// Queries from this one on see position `offset` of the span.
int32_t FirstThatSees(const Workspace& work, int32_t offset) {
  int32_t query = 0;
  while (work.n_seen[query] <= offset) ++query;
  return query;
}

void ScoreSpan(const Reader& reader, int32_t span_first, int32_t n, Workspace& work) {
  const int32_t head_dim = reader.params.head_dim;
  const float factor = reader.params.scale * simd::kLog2OfE;
  for (int32_t offset = 0; offset < n; offset += kTile) {
    const Tile tile = TileAt(reader, span_first + offset, false);
    const int32_t n_here = Least(kTile, n - offset);
    TurnKeys(tile, n_here, head_dim, work.keys);
    for (int32_t i = FirstThatSees(work, offset); i < work.n_queries;) {
      const int32_t n_together = Least(kTogether, work.n_queries - i);
      kScoreOf[n_together - 1](work.q + i * kMaxHeadDim, work.keys, head_dim, factor,
                               work.scores + i * kSpan + offset);
      i += n_together;
    }
  }
}

// The tile at `offset`, of n positions, for queries [begin, end), which see the same of it.
void AddTile(
    int32_t begin, int32_t end, int32_t offset, int32_t n, int32_t head_dim, Workspace& work) {
  for (int32_t d = 0; d < head_dim; d += kColumns) {
    for (int32_t i = begin; i < end;) {
      const int32_t n_together = Least(kTogether, end - i);
      kAddValuesOf[n_together - 1](work.probs + i * kSpan + offset, work.values + d * kTile, n,
                                   work.sums + i * kMaxHeadDim + d);
      i += n_together;
    }
  }
}

void AddSpanValues(const Reader& reader, int32_t span_first, int32_t n, Workspace& work) {
  const int32_t head_dim = reader.params.head_dim;
  for (int32_t offset = 0; offset < n; offset += kTile) {
    const Tile tile = TileAt(reader, span_first + offset, true);
    LoadValues(tile, Least(kTile, n - offset), head_dim, work.values);
    int32_t begin = FirstThatSees(work, offset);
    while (begin < work.n_queries) {
      const int32_t n_here = Least(kTile, work.n_seen[begin] - offset);
      int32_t end = begin + 1;
      while (end < work.n_queries && Least(kTile, work.n_seen[end] - offset) == n_here) ++end;
      AddTile(begin, end, offset, n_here, head_dim, work);
      begin = end;
    }
  }
}

// The span's sums become those so far, or are joined to them.
SLUICE_HOT_LOOP void JoinSpan(int32_t query, bool is_first, int32_t head_dim, Workspace& work) {
  float* total = work.totals + query * kMaxHeadDim;
  const float* sums = work.sums + query * kMaxHeadDim;
  if (is_first) {
    work.tops[query] = work.span_tops[query];
    work.weights[query] = work.span_weights[query];
    for (int32_t d = 0; d < head_dim; d += 8) _mm256_store_ps(total + d, _mm256_load_ps(sums + d));
    return;
  }
  const float before = work.tops[query];
  const float span = work.span_tops[query];
  const float top = before < span ? span : before;
  const float a = Exp2(before - top);
  const float b = Exp2(span - top);
  work.tops[query] = top;
  work.weights[query] = work.weights[query] * a + work.span_weights[query] * b;
  for (int32_t d = 0; d < head_dim; d += 8) {
    const __m256 left = _mm256_mul_ps(_mm256_load_ps(total + d), _mm256_set1_ps(a));
    const __m256 right = _mm256_mul_ps(_mm256_load_ps(sums + d), _mm256_set1_ps(b));
    _mm256_store_ps(total + d, _mm256_add_ps(left, right));
  }
}

SLUICE_HOT_LOOP void Begin(const Params& params, const Item& item, Workspace& work) {
  work.group = params.n_heads / params.n_kv_heads;
  work.n_queries = item.n_rows * work.group;
  for (int32_t i = 0; i < work.n_queries; ++i) {
    const float* q = params.q + HeadOf(params, item, i) * params.head_dim;
    for (int32_t d = 0; d < params.head_dim; ++d) {
      work.q[i * kMaxHeadDim + d] = ToFloat(ToBf16(q[d]));
    }
  }
}

SLUICE_HOT_LOOP void StorePart(
    const Params& params, const Item& item, int32_t span, int32_t query, const Workspace& work) {
  const int32_t head_dim = params.head_dim;
  float* part = item.parts.At(params, HeadOf(params, item, query), span);
  for (int32_t d = 0; d < head_dim; ++d) part[d] = work.sums[query * kMaxHeadDim + d];
  part[head_dim] = work.span_weights[query];
  part[head_dim + 1] = work.span_tops[query];
}

SLUICE_HOT_LOOP void StoreOutput(const Params& params,
                                 const Item& item,
                                 int32_t query,
                                 const Workspace& work) {
  Bf16* out = params.out + HeadOf(params, item, query) * params.head_dim;
  const float* total = work.totals + query * kMaxHeadDim;
  for (int32_t d = 0; d < params.head_dim; ++d) out[d] = ToBf16(total[d] / work.weights[query]);
}

void RunItem(const Params& params, const Item& item) {
  Workspace work;
  Begin(params, item, work);
  const int32_t* positions = params.positions + item.first_row;
  const Reader reader = {.params = params, .item = item, .end = positions[item.n_rows - 1] + 1};
  for (int32_t span = item.first_span; span < item.end_span; ++span) {
    const int32_t first = span * kSpan;
    for (int32_t i = 0; i < work.n_queries; ++i) {
      const int32_t n = positions[i / work.group] + 1 - first;
      work.n_seen[i] = n < 0 ? 0 : Least(n, kSpan);
    }
    const int32_t begin = FirstThatSees(work, 0);
    const int32_t n = work.n_seen[work.n_queries - 1];
    ScoreSpan(reader, first, n, work);
    for (int32_t i = begin; i < work.n_queries; ++i) {
      Soften(i, work);
      for (int32_t d = 0; d < params.head_dim; d += 8) {
        _mm256_store_ps(work.sums + i * kMaxHeadDim + d, _mm256_setzero_ps());
      }
    }
    AddSpanValues(reader, first, n, work);
    for (int32_t i = begin; i < work.n_queries; ++i) {
      if (item.parts.records != nullptr) {
        StorePart(params, item, span, i, work);
      } else {
        JoinSpan(i, span == 0, params.head_dim, work);
      }
    }
  }
  for (int32_t i = 0; i < work.n_queries && item.parts.records == nullptr; ++i) {
    StoreOutput(params, item, i, work);
  }
}

}  // namespace

void Run(const Params& params, Stream& stream) {
  RunItems(params, stream, {.n_queries = kQueries, .takes_spans = true, .run = &RunItem});
}

}  // namespace sluice::ops::gqa_attention::avx2
