// Index scores by VDPBF16PS: the components of 16 keys are decoded once, side by side, then 8 heads
// at a time go over them. Chains of 6 cycles, two of which begin in each, would want 12; rounding
// the 8 that are done fills the gaps (Zen 5).

#include <immintrin.h>

#include "kernels/index_score/items.h"
#include "kernels/index_score/op.h"
#include "kernels/simd/dot_panel.h"
#include "kernels/simd/flush_denormals.h"

namespace sluice::ops::index_score::avx512bf16 {
namespace {

#define SLUICE_HOT_INLINE SLUICE_HOT_LOOP __attribute__((always_inline)) static inline

constexpr int kHeads = 8;
constexpr int32_t kGroup = 32;  // components that share a scale
constexpr int kGroupBytes = 16;
// Values of E2M1 times 2^63 as bf16, from whose exponent the distance of a scale to the largest is
// taken: for scales of this range all stay normal (spec cpu-kernels.md §3.0 item 6).
constexpr int32_t kTopScale = 190;
constexpr int32_t kLeastScale = 64;
// Components of queries that are 0 or at least 2^-62 have normal products with all of these.
constexpr uint32_t kLeastQuery = (127 - 62) << 7;

struct Table {
  alignas(64) uint16_t values[32];  // twice: the fifth bit of an index does not count
};

constexpr Table MakeTable() {
  constexpr float kMagnitudes[] = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6};
  Table table{};
  for (int code = 0; code < 32; ++code) {
    const float magnitude = kMagnitudes[code % 8];
    if (magnitude == 0) continue;  // -0 is 0: no sum sees the difference
    const int bits = ToBf16(magnitude).bits + (63 << 7) + (code % 16 < 8 ? 0 : 0x8000);
    table.values[code] = static_cast<uint16_t>(bits);
  }
  return table;
}

constexpr Table kTable = MakeTable();

// pairs[i]: components 2i and 2i + 1 of 16 keys.
struct Tile {
  __m512i pairs[kMaxHeadDim / 2];
};

// Sixteen bytes from `at` on of four keys.
SLUICE_HOT_INLINE __m512i FourKeys(const uint8_t* const* keys, int32_t at) {
  const auto* a = reinterpret_cast<const __m128i*>(keys[0] + at);
  const auto* b = reinterpret_cast<const __m128i*>(keys[1] + at);
  const auto* c = reinterpret_cast<const __m128i*>(keys[2] + at);
  const auto* d = reinterpret_cast<const __m128i*>(keys[3] + at);
  const __m256i low =
      _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(a)), _mm_loadu_si128(b), 1);
  const __m256i high =
      _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(c)), _mm_loadu_si128(d), 1);
  return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

// False: a scale is out of range, and the tile is not decoded.
SLUICE_HOT_LOOP bool Decode(const uint8_t* const (&keys)[kTile], int32_t head_dim, Tile& tile) {
  const __m512i table = _mm512_load_si512(kTable.values);
  const __m512i eight_keys =
      _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 0, 4, 8, 12, 16, 20, 24, 28);
  for (int32_t group = 0; group < head_dim / kGroup; ++group) {
    alignas(64) uint32_t shifts[kTile];
    for (int i = 0; i < kTile; ++i) {
      const int32_t scale = keys[i][head_dim / 2 + group];
      if (scale < kLeastScale || scale > kTopScale) return false;
      const auto shift = static_cast<uint32_t>(kTopScale - scale) << 7;
      shifts[i] = shift | shift << 16;
    }
    const __m512i shift = _mm512_load_si512(shifts);
    __m512i rows[4];
    for (int four = 0; four < 4; ++four)
      rows[four] = FourKeys(keys + 4 * four, group * kGroupBytes);
    for (int dword = 0; dword < 4; ++dword) {
      const __m512i index = _mm512_add_epi32(eight_keys, _mm512_set1_epi32(dword));
      const __m512i codes =
          _mm512_mask_blend_epi32(0xFF00, _mm512_permutex2var_epi32(rows[0], index, rows[1]),
                                  _mm512_permutex2var_epi32(rows[2], index, rows[3]));
      for (int pair = 0; pair < 4; ++pair) {
        const __m512i even = _mm512_srli_epi32(codes, static_cast<unsigned>(8 * pair));
        const __m512i odd = _mm512_slli_epi32(even, 12);
        const __m512i places = _mm512_mask_blend_epi16(0xAAAAAAAA, even, odd);
        const __m512i values = _mm512_permutexvar_epi16(places, table);
        tile.pairs[group * kGroup / 2 + dword * 4 + pair] = _mm512_subs_epu16(values, shift);
      }
    }
  }
  return true;
}

// As ToBf16 rounds what is no NaN.
SLUICE_HOT_INLINE __m512 RoundToBf16(__m512 x) {
  const __m512i bits = _mm512_castps_si512(x);
  const __m512i last = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i sum = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7FFF)), last);
  return _mm512_castsi512_ps(_mm512_and_si512(sum, _mm512_set1_epi32(-0x10000)));
}

SLUICE_HOT_INLINE __m512bh PairAt(const Bf16* q) {
  int32_t pair;
  __builtin_memcpy(&pair, q, sizeof pair);
  return (__m512bh)_mm512_set1_epi32(pair);
}

// sums + what kN heads add, ascending.
template <int kN>
SLUICE_HOT_INLINE __m512
AddHeads(const Bf16* q, int32_t head_dim, const Bf16* weights, const Tile& tile, __m512 sums) {
  __m512 dots[kN];
#pragma GCC unroll 8
  for (int head = 0; head < kN; ++head) dots[head] = _mm512_setzero_ps();
  for (int32_t pair = 0; pair < head_dim / 2; ++pair) {
    const auto keys = (__m512bh)tile.pairs[pair];
#pragma GCC unroll 8
    for (int head = 0; head < kN; ++head) {
      dots[head] = _mm512_dpbf16_ps(dots[head], keys, PairAt(q + head * head_dim + 2 * pair));
    }
  }
#pragma GCC unroll 8
  for (int head = 0; head < kN; ++head) {
    // The second one where the first is NaN, as the formula has it.
    const __m512 positive =
        _mm512_maskz_max_ps(0xFFFF, RoundToBf16(dots[head]), _mm512_setzero_ps());
    const __m512 term = _mm512_mul_ps(positive, _mm512_set1_ps(ToFloat(weights[head])));
    sums = _mm512_add_ps(sums, RoundToBf16(term));
  }
  return sums;
}

// Whether every component is 0 or at least 2^-62.
SLUICE_HOT_LOOP bool AreOrdinary(const Bf16* q, int32_t n) {
  uint32_t n_tiny = 0;
  for (int32_t i = 0; i < n; ++i) {
    const uint32_t magnitude = q[i].bits & 0x7FFFU;
    n_tiny += magnitude != 0 && magnitude < kLeastQuery ? 1 : 0;
  }
  return n_tiny == 0;
}

SLUICE_HOT_LOOP void ScoreKeys(const Params& params, int64_t row, int64_t begin, int64_t end) {
  const int32_t head_dim = params.head_dim;
  const Bf16* q = params.q + row * params.n_heads * head_dim;
  const Bf16* weights = params.weights + row * params.n_heads;
  if (!AreOrdinary(q, params.n_heads * head_dim)) {
    return ref::ScoreKeys(params, row, begin, end, Arithmetic::kFloat32);
  }
  const PagedRows& stored = params.rows[row].keys;
  float* out = params.scores + row * params.stride;
  for (int64_t first = begin; first < end; first += kTile) {
    const int64_t n = end - first < kTile ? end - first : kTile;
    const uint8_t* keys[kTile];
    // Behind the last key it stands again; nobody stores what comes of it.
    for (int64_t i = 0; i < kTile; ++i) keys[i] = stored.Row(first + (i < n ? i : n - 1));
    Tile tile;
    if (!Decode(keys, head_dim, tile)) {
      ref::ScoreKeys(params, row, first, first + n, Arithmetic::kFloat32);
      continue;
    }
    __m512 sums = _mm512_setzero_ps();
    int32_t head = 0;
    for (; head + kHeads <= params.n_heads; head += kHeads) {
      sums = AddHeads<kHeads>(q + head * head_dim, head_dim, weights + head, tile, sums);
    }
    for (; head < params.n_heads; ++head) {
      sums = AddHeads<1>(q + head * head_dim, head_dim, weights + head, tile, sums);
    }
    const auto stores = static_cast<__mmask16>((1U << n) - 1);
    _mm512_mask_storeu_ps(out + first, stores, RoundToBf16(sums));
  }
}

}  // namespace

void Run(const Params& params, Stream& stream) {
  stream.team.Run(NumItems(params), [&](int64_t begin, int64_t end, int32_t) {
    const simd::FlushDenormals flush(Arithmetic::kFloat32);
    ForItems(params, begin, end, [&](int64_t row, int64_t first, int64_t last) {
      ScoreKeys(params, row, first, last);
    });
  });
}

}  // namespace sluice::ops::index_score::avx512bf16
