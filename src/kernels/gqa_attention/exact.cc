// Attention in double, in tiles of 64 positions: what goldens are compared with.

#include <algorithm>

#include "kernels/gqa_attention/items.h"
#include "kernels/gqa_attention/op.h"
#include "kernels/simd/dot_panel.h"
#include "kernels/simd/elementary.h"
#include "kernels/simd/lane_sum.h"

namespace sluice::ops::gqa_attention::ref {
namespace {

constexpr int32_t kTile = 64;                    // positions of one step of the online softmax
constexpr int32_t kLanes = simd::kPanelOutputs;  // positions scored, or components summed, together
// Queries of one work item: rows of a sequence times the heads of a group. As many as share what is
// decoded of a tile while their totals stay in the first cache levels.
constexpr int32_t kQueries = 16;
constexpr int32_t kMaxQueries = std::max(kQueries, kMaxGroup);
constexpr float kLowest = -1e30F;  // where the running maximum starts

// Query i is head i % group of row i / group.
struct Workspace {
  alignas(64) float keys[kMaxHeadDim * kLanes];   // [head_dim, kLanes]
  alignas(64) float values[kTile * kMaxHeadDim];  // [panels of kLanes components, kTile, kLanes]
  alignas(64) float decoded[4 * kMaxHeadDim];
  alignas(64) float q[kMaxQueries * kMaxHeadDim];  // [n_queries, head_dim]
  // [n_queries, kTile]: scores, then probabilities. Begins finite, for lanes that nobody filled.
  alignas(64) float p[kMaxQueries * kTile] = {};
  alignas(64) double totals[kMaxQueries * kMaxHeadDim];
  double weights[kMaxQueries];
  float tops[kMaxQueries];
  float shrinks[kMaxQueries];   // what the old totals count for now
  int32_t n_seen[kMaxQueries];  // positions of the tile
  int32_t n_queries;
};

void Decode(const uint8_t* row, int32_t kv_head, int32_t head_dim, float* out) {
  const auto* values = reinterpret_cast<const Bf16*>(row) + int64_t{kv_head} * head_dim;
  for (int32_t d = 0; d < head_dim; ++d) out[d] = ToFloat(values[d]);
}

// keys[d][i] = component d of position first + i; zeros from position `end` on.
void DecodeKeys(
    const Params& params, const Item& item, int32_t first, int32_t end, Workspace& work) {
  const int32_t head_dim = params.head_dim;
  for (int32_t i = 0; i < kLanes; ++i) {
    float* row = work.decoded + i % 4 * head_dim;
    if (first + i < end) {
      Decode(item.sequence->keys.Row(first + i), item.kv_head, head_dim, row);
    } else {
      std::fill_n(row, head_dim, 0.0F);
    }
    if (i % 4 == 3) simd::StoreInPanel(work.decoded, head_dim, head_dim, work.keys + i - 3);
  }
}

int32_t NumPanels(int32_t head_dim) { return (head_dim + kLanes - 1) / kLanes; }

void DecodeValues(
    const Params& params, const Item& item, int32_t first, int32_t end, Workspace& work) {
  const int32_t n_padded = NumPanels(params.head_dim) * kLanes;
  std::fill_n(work.decoded, n_padded, 0.0F);
  for (int32_t i = 0; first + i < end; ++i) {
    Decode(item.sequence->values.Row(first + i), item.kv_head, params.head_dim, work.decoded);
    for (int32_t d = 0; d < n_padded; d += kLanes) {
      std::copy_n(work.decoded + d, kLanes, work.values + (d * kTile + i * kLanes));
    }
  }
}

// sums[r][lane] of queries i and, if there are two, i + 1.
void Dot(const float* x, int64_t stride, int n_rows, const float* panel, int64_t n, double* sums) {
  std::fill_n(sums, n_rows * kLanes, 0.0);
  if (n_rows == 2) {
    simd::AddProducts<2>(x, stride, panel, n, sums);
  } else {
    simd::AddProducts<1>(x, stride, panel, n, sums);
  }
}

void Score(const Params& params, const Item& item, int32_t first, int32_t end, Workspace& work) {
  for (int32_t column = 0; column < kTile && first + column < end; column += kLanes) {
    DecodeKeys(params, item, first + column, end, work);
    for (int32_t i = 0; i < work.n_queries; i += 2) {
      const int n_rows = std::min(2, work.n_queries - i);
      double sums[2 * kLanes];
      Dot(work.q + i * params.head_dim, params.head_dim, n_rows, work.keys, params.head_dim, sums);
      for (int row = 0; row < n_rows; ++row) {
        float* scores = work.p + (i + row) * kTile + column;
        for (int32_t lane = 0; lane < kLanes; ++lane) {
          scores[lane] = static_cast<float>(sums[row * kLanes + lane]) * params.scale;
        }
      }
    }
  }
}

// Scores become probabilities relative to the maximum so far.
void Soften(int32_t query, Workspace& work) {
  const int32_t n = work.n_seen[query];
  float* p = work.p + query * kTile;
  float top = work.tops[query];
  for (int32_t i = 0; i < n; ++i) top = std::max(top, p[i]);
  for (int32_t i = 0; i < n; ++i) p[i] = RoundToBf16(simd::Exp(p[i] - top, Arithmetic::kExact));
  const float shrink = simd::Exp(work.tops[query] - top, Arithmetic::kExact);
  const double sum = simd::SumExact(n, [p](int64_t i) { return p[i]; });
  work.weights[query] = work.weights[query] * shrink + sum;
  work.shrinks[query] = shrink;
  work.tops[query] = top;
}

void AddValues(int32_t head_dim, Workspace& work) {
  for (int32_t i = 0; i < work.n_queries;) {
    const bool are_alike = i + 1 < work.n_queries && work.n_seen[i] == work.n_seen[i + 1];
    const int n_rows = are_alike ? 2 : 1;
    for (int32_t d = 0; d < head_dim && work.n_seen[i] > 0; d += kLanes) {
      double sums[2 * kLanes];
      Dot(work.p + i * kTile, kTile, n_rows, work.values + d * kTile, work.n_seen[i], sums);
      for (int row = 0; row < n_rows; ++row) {
        double* total = work.totals + (i + row) * kMaxHeadDim + d;
        const float shrink = work.shrinks[i + row];
        for (int32_t lane = 0; lane < kLanes; ++lane) {
          total[lane] = total[lane] * shrink + sums[row * kLanes + lane];
        }
      }
    }
    i += n_rows;
  }
}

void Begin(const Params& params, const Item& item, Workspace& work) {
  const int32_t group = params.n_heads / params.n_kv_heads;
  const int64_t n_values = int64_t{group} * params.head_dim;
  work.n_queries = item.n_rows * group;
  for (int32_t row = 0; row < item.n_rows; ++row) {
    const float* q =
        params.q + ((item.first_row + row) * params.n_kv_heads + item.kv_head) * n_values;
    std::transform(q, q + n_values, work.q + row * n_values, RoundToBf16);
  }
  for (int32_t i = 0; i < work.n_queries; ++i) {
    std::fill_n(work.totals + i * kMaxHeadDim, NumPanels(params.head_dim) * kLanes, 0.0);
    work.weights[i] = 0;
    work.tops[i] = kLowest;
  }
}

void RunItem(const Params& params, const Item& item, Workspace& work) {
  const int32_t group = params.n_heads / params.n_kv_heads;
  const int32_t* positions = params.positions + item.first_row;
  Begin(params, item, work);
  const int32_t last = positions[item.n_rows - 1];
  for (int32_t first = 0; first <= last; first += kTile) {
    const int32_t end = std::min(first + kTile, last + 1);
    for (int32_t i = 0; i < work.n_queries; ++i) {
      work.n_seen[i] = std::clamp(positions[i / group] + 1 - first, 0, kTile);
    }
    Score(params, item, first, end, work);
    for (int32_t i = 0; i < work.n_queries; ++i) {
      if (work.n_seen[i] > 0) Soften(i, work);
    }
    DecodeValues(params, item, first, end, work);
    AddValues(params.head_dim, work);
  }
  for (int32_t i = 0; i < work.n_queries; ++i) {
    const int64_t head =
        (item.first_row + i / group) * params.n_heads + item.kv_head * group + i % group;
    Bf16* out = params.out + head * params.head_dim;
    const double* total = work.totals + i * kMaxHeadDim;
    for (int32_t d = 0; d < params.head_dim; ++d) {
      out[d] = ToBf16(static_cast<float>(total[d] / work.weights[i]));
    }
  }
}

}  // namespace

void RunExact(const Params& params, Stream& stream) {
  const auto run = [](const Params& p, const Item& item) {
    Workspace work;
    RunItem(p, item, work);
  };
  RunItems(params, stream, {.n_queries = kQueries, .run = run});
}

}  // namespace sluice::ops::gqa_attention::ref
