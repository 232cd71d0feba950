// Attention with shared keys and values by VDPBF16PS.
//
// A tile of 64 positions is turned once for all queries of an item: keys so that 16 positions lie
// side by side, values in pairs of positions. Both products are then sums of 64 numbers, four
// vectors, of up to 6 queries in registers: chains of 6 cycles, two of which begin in each,
// want 12. A span's scores wait in the second cache level for its largest one.

#include <immintrin.h>

#include "kernels/gqa_attention/items.h"
#include "kernels/gqa_attention/op.h"
#include "kernels/gqa_attention/tiles.h"
#include "kernels/simd/dot_panel.h"
#include "kernels/simd/exp2.h"

namespace sluice::ops::gqa_attention::avx512bf16 {
namespace {

#define SLUICE_HOT_INLINE SLUICE_HOT_LOOP __attribute__((always_inline)) inline

constexpr int32_t kLine = 64;
constexpr int kVectors = kTile / 16;
constexpr int kTogether = 6;  // queries
// Queries of an item: turning a tile is then a twentieth of the work.
constexpr int32_t kQueries = 48;
constexpr int32_t kMaxQueries = kQueries > kMaxGroup ? kQueries : kMaxGroup;

// Query i is head i % group of row i / group.
struct Workspace {
  alignas(64) Bf16 q[kMaxQueries * kMaxHeadDim];
  alignas(64) uint32_t keys[kMaxHeadDim / 2 * kTile];    // [pairs of components, positions]
  alignas(64) uint32_t values[kTile / 2 * kMaxHeadDim];  // [kTile components, pairs, components]
  alignas(64) float scores[kMaxQueries * kSpan];
  alignas(64) Bf16 probs[kMaxQueries * kSpan];
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

// Of vpermi2w: the first and the last 16 words of two vectors, one of each by turns.
struct PairIndices {
  alignas(64) uint16_t low[32];
  alignas(64) uint16_t high[32];
};

constexpr PairIndices MakePairIndices() {
  PairIndices indices{};
  for (int i = 0; i < 32; ++i) {
    indices.low[i] = static_cast<uint16_t>(i / 2 + i % 2 * 32);
    indices.high[i] = static_cast<uint16_t>(indices.low[i] + 16);
  }
  return indices;
}

constexpr PairIndices kPairs = MakePairIndices();

// One line of each row of a tile, asked for two rows at a time: memory answers a few dozen lines at
// once, so turning a tile asks for half of the next one and the products ask for the rest.
struct Lines {
  const uint8_t* row;
  int64_t stride;
};

// In lines of components, the first half rounded up.
int32_t FirstHalf(int32_t head_dim) { return (head_dim + 63) / 64 * 32; }

Lines SecondHalfOf(const Tile& tile, int32_t head_dim) {
  return {.row = tile.later + FirstHalf(head_dim) * 2, .stride = tile.stride};
}
// One that is there already.
Lines NoLines(const Tile& tile) { return {.row = tile.rows, .stride = 0}; }

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

// Of the 32 components from `first` on those that there are.
SLUICE_HOT_INLINE __mmask32 MaskOf(int32_t first, int32_t head_dim) {
  return head_dim - first < 32 ? (1U << (head_dim - first)) - 1 : 0xFFFFFFFFU;
}

// keys[pair][position] of the first n positions, 16 at a time.
SLUICE_HOT_LOOP __attribute__((noinline)) void TurnKeys(const Tile& tile,
                                                        int32_t n,
                                                        int32_t head_dim,
                                                        uint32_t* keys) {
  const int64_t stride = tile.stride;
  for (int32_t first = 0; first < head_dim; first += 32) {
    const __mmask32 mask = MaskOf(first, head_dim);
    for (int32_t column = 0; column < n; column += 16) {
      const uint8_t* row = tile.rows + column * stride + first * 2;
      const uint8_t* later = tile.later + column * stride + first * 2;
      uint32_t* at = keys + first / 2 * kTile + column;
      __m512i words[16];
#pragma GCC unroll 16
      for (__m512i& word : words) {
        word = _mm512_maskz_loadu_epi16(mask, row);
        if (first < FirstHalf(head_dim)) _mm_prefetch(later, _MM_HINT_T0);
        row += stride;
        later += stride;
      }
      Transpose(words);
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) _mm512_store_si512(at + i * kTile, words[i]);
    }
  }
}

// values[pair of positions][component] for the first n positions, two at a time.
SLUICE_HOT_LOOP __attribute__((noinline)) void PairValues(const Tile& tile,
                                                          int32_t n,
                                                          int32_t head_dim,
                                                          uint32_t* values) {
  const __m512i low = _mm512_load_si512(kPairs.low);
  const __m512i high = _mm512_load_si512(kPairs.high);
  const int64_t stride = tile.stride;
  for (int32_t first = 0; first < head_dim; first += 32) {
    const __mmask32 mask = MaskOf(first, head_dim);
    const uint8_t* row = tile.rows + first * 2;
    const uint8_t* later = tile.later + first * 2;
    uint32_t* at = values + first / kTile * (kTile * kTile / 2) + first % kTile;
    for (int32_t i = 0; i < n; i += 2) {
      const __m512i even = _mm512_maskz_loadu_epi16(mask, row);
      const __m512i odd = _mm512_maskz_loadu_epi16(mask, row + stride);
      if (first < FirstHalf(head_dim)) {
        _mm_prefetch(later, _MM_HINT_T0);
        _mm_prefetch(later + stride, _MM_HINT_T0);
      }
      _mm512_store_si512(at, _mm512_permutex2var_epi16(even, low, odd));
      _mm512_store_si512(at + 16, _mm512_permutex2var_epi16(even, high, odd));
      row += 2 * stride;
      later += 2 * stride;
      at += kTile;
    }
  }
}

SLUICE_HOT_INLINE __m512i PairAt(const Bf16* x) {
  int32_t pair;
  __builtin_memcpy(&pair, x, sizeof pair);
  return _mm512_set1_epi32(pair);
}

SLUICE_HOT_INLINE __m512 AddPair(__m512 sum, __m512i a, __m512i b) {
  return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b);
}

// sums[n][j] += x[n][pair] . panel[pair][j], a pair of bf16 each; x kStride apart.
template <int kN, int kV, int kStride>
SLUICE_HOT_INLINE void AddPairs(
    const Bf16* x, const uint32_t* panel, int32_t n_pairs, Lines lines, __m512 (&sums)[kN][kV]) {
  for (int32_t pair = 0; pair < n_pairs; ++pair) {
    _mm_prefetch(lines.row, _MM_HINT_T0);
    _mm_prefetch(lines.row + lines.stride, _MM_HINT_T0);
    lines.row += 2 * lines.stride;
    __m512i columns[kV];
#pragma GCC unroll 4
    for (int v = 0; v < kV; ++v) {
      columns[v] = _mm512_load_si512(panel + pair * kTile + v * 16);
    }
#pragma GCC unroll 6
    for (int n = 0; n < kN; ++n) {
      const __m512i input = PairAt(x + n * kStride + 2 * pair);
#pragma GCC unroll 4
      for (int v = 0; v < kV; ++v) sums[n][v] = AddPair(sums[n][v], columns[v], input);
    }
  }
}

// Of kN queries and the first 16 * kV positions of a tile.
template <int kN, int kV>
SLUICE_HOT_LOOP void Score(const Bf16* q,
                           const uint32_t* keys,
                           int32_t head_dim,
                           float factor,
                           Lines lines,
                           float* scores) {
  __m512 sums[kN][kV];
  for (auto& row : sums) {
    for (__m512& sum : row) sum = _mm512_setzero_ps();
  }
  for (int32_t first = 0; first < head_dim / 2; first += kTile / 2) {
    AddPairs<kN, kV, kMaxHeadDim>(q + 2 * first, keys + first * kTile,
                                  Least(head_dim / 2 - first, kTile / 2), lines, sums);
    lines.row += kLine * (lines.stride != 0);
  }
#pragma GCC unroll 6
  for (int n = 0; n < kN; ++n) {
#pragma GCC unroll 4
    for (int v = 0; v < kV; ++v) {
      const __m512 score = _mm512_mul_ps(sums[n][v], _mm512_set1_ps(factor));
      _mm512_store_ps(scores + n * kSpan + v * 16, score);
    }
  }
}

// sums [kN, kTile components] += probs . values of n positions.
template <int kN>
SLUICE_HOT_LOOP void AddValues(
    const Bf16* probs, const uint32_t* values, int32_t n, Lines lines, float* sums) {
  __m512 sum[kN][kVectors];
#pragma GCC unroll 6
  for (int i = 0; i < kN; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sum[i][v] = _mm512_load_ps(sums + i * kMaxHeadDim + v * 16);
  }
  AddPairs<kN, kVectors, kSpan>(probs, values, n / 2, lines, sum);
  if (n % 2 != 0) {
    // Only the even one: the other one's value may be anything.
    alignas(64) uint32_t alone[kTile];
    for (int v = 0; v < kVectors; ++v) {
      const __m512i pair = _mm512_load_si512(values + n / 2 * kTile + v * 16);
      _mm512_store_si512(alone + v * 16, _mm512_and_si512(pair, _mm512_set1_epi32(0xFFFF)));
    }
    AddPairs<kN, kVectors, kSpan>(probs + n - 1, alone, 1, lines, sum);
  }
#pragma GCC unroll 6
  for (int i = 0; i < kN; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) _mm512_store_ps(sums + i * kMaxHeadDim + v * 16, sum[i][v]);
  }
}

// Of instructions with a mask, because g++ 12 warns of what its header does without one.
constexpr __mmask16 kAll = 0xFFFF;

// simd::Exp2. max gives its second operand for NaN.
SLUICE_HOT_INLINE __m512 Exp2(__m512 x) {
  const __m512 round = _mm512_set1_ps(simd::kExp2Round);
  const __m512 bounded = _mm512_maskz_max_ps(kAll, _mm512_set1_ps(simd::kExp2Lowest), x);
  const __m512 shifted = _mm512_add_ps(bounded, round);
  const __m512 f = _mm512_sub_ps(bounded, _mm512_sub_ps(shifted, round));
  __m512 p = _mm512_fmadd_ps(_mm512_set1_ps(simd::kExp2C3), f, _mm512_set1_ps(simd::kExp2C2));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(simd::kExp2C1));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(simd::kExp2C0));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(1.0F));
  const __m512i exponent = _mm512_maskz_slli_epi32(kAll, _mm512_castps_si512(shifted), 23);
  return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(p), exponent));
}

SLUICE_HOT_INLINE float Exp2(float x) { return _mm512_cvtss_f32(Exp2(_mm512_set1_ps(x))); }

SLUICE_HOT_INLINE __mmask16 FirstOf(int32_t n) {
  return static_cast<__mmask16>(n < 16 ? (1U << n) - 1 : 0xFFFF);
}

// lanes[i ^ 8], [i ^ 4], [i ^ 2] or [i ^ 1].
template <int kDistance>
SLUICE_HOT_INLINE __m512 Opposite(__m512 lanes) {
  if constexpr (kDistance == 8) return _mm512_maskz_shuffle_f32x4(kAll, lanes, lanes, 0x4E);
  if constexpr (kDistance == 4) return _mm512_maskz_shuffle_f32x4(kAll, lanes, lanes, 0xB1);
  return _mm512_maskz_permute_ps(kAll, lanes, kDistance == 2 ? 0x4E : 0xB1);
}

// As simd/lane_sum.h.
SLUICE_HOT_INLINE float SumOfLanes(__m512 lanes) {
  lanes = _mm512_add_ps(lanes, Opposite<8>(lanes));
  lanes = _mm512_add_ps(lanes, Opposite<4>(lanes));
  lanes = _mm512_add_ps(lanes, Opposite<2>(lanes));
  lanes = _mm512_add_ps(lanes, Opposite<1>(lanes));
  return _mm512_cvtss_f32(lanes);
}

SLUICE_HOT_INLINE float LargestOfLanes(__m512 lanes) {
  lanes = _mm512_maskz_max_ps(kAll, lanes, Opposite<8>(lanes));
  lanes = _mm512_maskz_max_ps(kAll, lanes, Opposite<4>(lanes));
  lanes = _mm512_maskz_max_ps(kAll, lanes, Opposite<2>(lanes));
  lanes = _mm512_maskz_max_ps(kAll, lanes, Opposite<1>(lanes));
  return _mm512_cvtss_f32(lanes);
}

// Sixteen probabilities, 0 where the mask has none.
SLUICE_HOT_INLINE __m512 StoreProbs(const float* scores, __m512 top, __mmask16 mask, Bf16* probs) {
  const __m512 prob = Exp2(_mm512_sub_ps(_mm512_load_ps(scores), top));
  const __m256i rounded = _mm256_maskz_mov_epi16(mask, (__m256i)_mm512_cvtneps_pbh(prob));
  _mm256_store_si256(reinterpret_cast<__m256i*>(probs), rounded);
  const __m512i widened = _mm512_maskz_cvtepu16_epi32(kAll, rounded);
  return _mm512_castsi512_ps(_mm512_maskz_slli_epi32(kAll, widened, 16));
}

SLUICE_HOT_LOOP __attribute__((noinline)) void Soften(int32_t query, Workspace& work) {
  const float* scores = work.scores + query * kSpan;
  Bf16* probs = work.probs + query * kSpan;
  const int32_t n = work.n_seen[query];
  const int32_t n_whole = n / 16 * 16;
  const __mmask16 rest = FirstOf(n - n_whole);
  __m512 tops = _mm512_set1_ps(-__builtin_inff());
  for (int32_t i = 0; i < n_whole; i += 16) {
    tops = _mm512_maskz_max_ps(kAll, _mm512_load_ps(scores + i), tops);
  }
  if (rest != 0) tops = _mm512_mask_max_ps(tops, rest, _mm512_load_ps(scores + n_whole), tops);
  const __m512 top = _mm512_set1_ps(LargestOfLanes(tops));
  __m512 weights = _mm512_setzero_ps();
  for (int32_t i = 0; i < n_whole; i += 16) {
    weights = _mm512_add_ps(weights, StoreProbs(scores + i, top, kAll, probs + i));
  }
  if (rest != 0) {
    weights = _mm512_add_ps(weights, StoreProbs(scores + n_whole, top, rest, probs + n_whole));
  }
  work.span_tops[query] = _mm512_cvtss_f32(top);
  work.span_weights[query] = SumOfLanes(weights);
}

using ScoreN = void (*)(const Bf16*, const uint32_t*, int32_t, float, Lines, float*);
template <int kN>
constexpr ScoreN kScoreOfN[kVectors] = {Score<kN, 1>, Score<kN, 2>, Score<kN, 3>, Score<kN, 4>};
// [queries - 1][vectors - 1]
constexpr const ScoreN* kScoreOf[kTogether] = {kScoreOfN<1>, kScoreOfN<2>, kScoreOfN<3>,
                                               kScoreOfN<4>, kScoreOfN<5>, kScoreOfN<6>};
using AddValuesN = void (*)(const Bf16*, const uint32_t*, int32_t, Lines, float*);
constexpr AddValuesN kAddValuesOf[kTogether] = {AddValues<1>, AddValues<2>, AddValues<3>,
                                                AddValues<4>, AddValues<5>, AddValues<6>};

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
    Lines lines = SecondHalfOf(tile, head_dim);
    for (int32_t i = FirstThatSees(work, offset); i < work.n_queries;) {
      const int32_t n_together = Least(kTogether, work.n_queries - i);
      kScoreOf[n_together - 1][(n_here + 15) / 16 - 1](work.q + i * kMaxHeadDim, work.keys,
                                                       head_dim, factor, lines,
                                                       work.scores + i * kSpan + offset);
      lines = NoLines(tile);
      i += n_together;
    }
  }
}

// The tile at `offset`, of n positions, for queries [begin, end), which see the same of it.
void AddTile(int32_t begin,
             int32_t end,
             int32_t offset,
             int32_t n,
             int32_t head_dim,
             const Tile& tile,
             Workspace& work) {
  for (int32_t d = 0; d < head_dim; d += kTile) {
    Lines lines = begin == 0 ? SecondHalfOf(tile, head_dim) : NoLines(tile);
    lines.row += lines.stride == 0 ? 0 : d / kTile * kLine;
    for (int32_t i = begin; i < end;) {
      const int32_t n_together = Least(kTogether, end - i);
      kAddValuesOf[n_together - 1](work.probs + i * kSpan + offset, work.values + d * (kTile / 2),
                                   n, lines, work.sums + i * kMaxHeadDim + d);
      lines = NoLines(tile);
      i += n_together;
    }
  }
}

void AddSpanValues(const Reader& reader, int32_t span_first, int32_t n, Workspace& work) {
  const int32_t head_dim = reader.params.head_dim;
  for (int32_t offset = 0; offset < n; offset += kTile) {
    const Tile tile = TileAt(reader, span_first + offset, true);
    PairValues(tile, Least(kTile, n - offset), head_dim, work.values);
    int32_t begin = FirstThatSees(work, offset);
    while (begin < work.n_queries) {
      const int32_t n_here = Least(kTile, work.n_seen[begin] - offset);
      int32_t end = begin + 1;
      while (end < work.n_queries && Least(kTile, work.n_seen[end] - offset) == n_here) ++end;
      AddTile(begin, end, offset, n_here, head_dim, tile, work);
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
    for (int32_t d = 0; d < head_dim; d += 16) _mm512_store_ps(total + d, _mm512_load_ps(sums + d));
    return;
  }
  const float before = work.tops[query];
  const float span = work.span_tops[query];
  const float top = before < span ? span : before;
  const float a = Exp2(before - top);
  const float b = Exp2(span - top);
  work.tops[query] = top;
  work.weights[query] = work.weights[query] * a + work.span_weights[query] * b;
  for (int32_t d = 0; d < head_dim; d += 16) {
    const __m512 left = _mm512_mul_ps(_mm512_load_ps(total + d), _mm512_set1_ps(a));
    const __m512 right = _mm512_mul_ps(_mm512_load_ps(sums + d), _mm512_set1_ps(b));
    _mm512_store_ps(total + d, _mm512_add_ps(left, right));
  }
}

SLUICE_HOT_LOOP void Begin(const Params& params, const Item& item, Workspace& work) {
  work.group = params.n_heads / params.n_kv_heads;
  work.n_queries = item.n_rows * work.group;
  for (int32_t i = 0; i < work.n_queries; ++i) {
    const float* q = params.q + HeadOf(params, item, i) * params.head_dim;
    for (int32_t d = 0; d < params.head_dim; d += 16) {
      const __m512 values = _mm512_maskz_loadu_ps(FirstOf(params.head_dim - d), q + d);
      _mm256_store_si256(reinterpret_cast<__m256i*>(work.q + i * kMaxHeadDim + d),
                         (__m256i)_mm512_cvtneps_pbh(values));
    }
  }
}

SLUICE_HOT_LOOP void StorePart(
    const Params& params, const Item& item, int32_t span, int32_t query, const Workspace& work) {
  const int32_t head_dim = params.head_dim;
  float* part = item.parts.At(params, HeadOf(params, item, query), span);
  for (int32_t d = 0; d < head_dim; d += 16) {
    const __m512 sum = _mm512_load_ps(work.sums + query * kMaxHeadDim + d);
    _mm512_mask_storeu_ps(part + d, FirstOf(head_dim - d), sum);
  }
  part[head_dim] = work.span_weights[query];
  part[head_dim + 1] = work.span_tops[query];
}

SLUICE_HOT_LOOP void StoreOutput(const Params& params,
                                 const Item& item,
                                 int32_t query,
                                 const Workspace& work) {
  Bf16* out = params.out + HeadOf(params, item, query) * params.head_dim;
  for (int32_t d = 0; d < params.head_dim; d += 16) {
    const __m512 total = _mm512_load_ps(work.totals + query * kMaxHeadDim + d);
    const __m512 mean = _mm512_div_ps(total, _mm512_set1_ps(work.weights[query]));
    _mm256_mask_storeu_epi16(out + d, FirstOf(params.head_dim - d),
                             (__m256i)_mm512_cvtneps_pbh(mean));
  }
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
      for (int32_t d = 0; d < params.head_dim; d += 16) {
        _mm512_store_ps(work.sums + i * kMaxHeadDim + d, _mm512_setzero_ps());
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

}  // namespace sluice::ops::gqa_attention::avx512bf16
