#include <algorithm>

#include "kernels/index_score/items.h"
#include "kernels/index_score/op.h"
#include "kernels/simd/dot_panel.h"
#include "kernels/simd/flush_denormals.h"

namespace sluice::ops::index_score::ref {
namespace {

static_assert(kTile == simd::kPanelOutputs);

// Queries of one row as floats, and the keys of one tile, column by column.
struct Workspace {
  alignas(64) float q[kMaxQuery];               // [n_heads, head_dim]
  alignas(64) float keys[kMaxHeadDim * kTile];  // [head_dim, kTile]
};

void DecodeQuery(const Params& params, int64_t row, Workspace& space) {
  const int32_t n = params.n_heads * params.head_dim;
  const Bf16* q = params.q + row * n;
  for (int32_t i = 0; i < n; ++i) space.q[i] = ToFloat(q[i]);
}

// Keys [first, first + n), n <= kTile; the places of absent ones hold zeros.
void DecodeTile(
    const PagedRows& keys, int64_t first, int64_t n, int32_t head_dim, Workspace& space) {
  float key[kMaxHeadDim];
  if (n < kTile) std::fill_n(space.keys, head_dim * kTile, 0.0F);
  for (int64_t i = 0; i < n; ++i) {
    const uint8_t* codes = keys.Row(first + i);
    const uint8_t* scales = codes + CodeBytes(GroupFormat::kFp4Mx, head_dim);
    DequantizeRow(GroupFormat::kFp4Mx, codes, scales, head_dim, key);
    for (int32_t d = 0; d < head_dim; ++d) space.keys[d * kTile + i] = key[d];
  }
}

// What head adds to a score: bf16(w * relu(bf16(dot))).
float HeadTerm(float dot, float weight) {
  const float rounded = RoundToBf16(dot);
  return RoundToBf16((rounded > 0 ? rounded : 0.0F) * weight);
}

// scores [kTile] of one row against the tile.
void ScoreFloat32(const Workspace& space,
                  const Params& params,
                  const Bf16* weights,
                  float* scores) {
  constexpr int32_t kTogether = 2;  // heads: eight chains of four lanes hide each other's latency
  float sums[kTile] = {};
  for (int32_t head = 0; head < params.n_heads; head += kTogether) {
    const float* q = space.q + head * params.head_dim;
    const int32_t n = std::min(kTogether, params.n_heads - head);
    float dots[kTogether * kTile] = {};
    if (n == kTogether) {
      simd::AddProducts<kTogether>(q, params.head_dim, space.keys, params.head_dim, dots);
    } else {
      simd::AddProducts<1>(q, params.head_dim, space.keys, params.head_dim, dots);
    }
    for (int32_t i = 0; i < n; ++i) {
      const float weight = ToFloat(weights[head + i]);
      for (int32_t k = 0; k < kTile; ++k) sums[k] += HeadTerm(dots[i * kTile + k], weight);
    }
  }
  for (int32_t k = 0; k < kTile; ++k) scores[k] = RoundToBf16(sums[k]);
}

void ScoreExact(const Workspace& space, const Params& params, const Bf16* weights, float* scores) {
  double sums[kTile] = {};
  for (int32_t head = 0; head < params.n_heads; ++head) {
    const float* q = space.q + head * params.head_dim;
    double dots[kTile] = {};
    for (int32_t d = 0; d < params.head_dim; ++d) {
      const float* keys = space.keys + d * kTile;
      for (int32_t k = 0; k < kTile; ++k) dots[k] += double{q[d]} * double{keys[k]};
    }
    const float weight = ToFloat(weights[head]);
    for (int32_t k = 0; k < kTile; ++k) sums[k] += HeadTerm(static_cast<float>(dots[k]), weight);
  }
  for (int32_t k = 0; k < kTile; ++k) scores[k] = RoundToBf16(static_cast<float>(sums[k]));
}

}  // namespace

void ScoreKeys(
    const Params& params, int64_t row, int64_t begin, int64_t end, Arithmetic arithmetic) {
  Workspace space;
  DecodeQuery(params, row, space);
  const Bf16* weights = params.weights + row * params.n_heads;
  for (int64_t first = begin; first < end; first += kTile) {
    const int64_t n = std::min(kTile, end - first);
    DecodeTile(params.rows[row].keys, first, n, params.head_dim, space);
    float scores[kTile];
    if (arithmetic == Arithmetic::kExact) {
      ScoreExact(space, params, weights, scores);
    } else {
      ScoreFloat32(space, params, weights, scores);
    }
    std::copy_n(scores, n, params.scores + row * params.stride + first);
  }
}

void Run(const Params& params, Stream& stream) {
  stream.team.Run(NumItems(params), [&](int64_t begin, int64_t end, int32_t) {
    const simd::FlushDenormals flush(stream.arithmetic);
    ForItems(params, begin, end, [&](int64_t row, int64_t first, int64_t last) {
      ScoreKeys(params, row, first, last, stream.arithmetic);
    });
  });
}

}  // namespace sluice::ops::index_score::ref
