#include <algorithm>
#include <type_traits>

#include "base/check.h"
#include "kernels/gqa_attention/op.h"
#include "kernels/simd/dot_panel.h"
#include "kernels/simd/elementary.h"
#include "kernels/simd/flush_denormals.h"
#include "kernels/simd/lane_sum.h"
#include "kernels/simd/vector_exp.h"

namespace sluice::ops::gqa_attention {
namespace {

constexpr int32_t kTile = 64;                    // positions of one step of the online softmax
constexpr int32_t kLanes = simd::kPanelOutputs;  // positions scored, or components summed, together
// Queries of one work item: rows of a sequence times the heads of a group. As many as share what is
// decoded of a tile while their totals stay in the first cache levels.
constexpr int32_t kQueries = 16;
constexpr int32_t kMaxQueries = std::max(kQueries, kMaxGroup);
constexpr float kLowest = -1e30F;  // where the running maximum starts

// What one work item computes: some rows of a sequence for one group of heads.
struct Item {
  const Sequence* sequence = nullptr;
  int64_t first_row = 0;
  int32_t n_rows = 0;
  int32_t kv_head = 0;
};

// Query i is head i % group of row i / group.
template <typename Sum>
struct Workspace {
  alignas(64) float keys[kMaxHeadDim * kLanes];   // [head_dim, kLanes]
  alignas(64) float values[kTile * kMaxHeadDim];  // [panels of kLanes components, kTile, kLanes]
  alignas(64) float decoded[4 * kMaxHeadDim];
  alignas(64) float q[kMaxQueries * kMaxHeadDim];  // [n_queries, head_dim]
  // [n_queries, kTile]: scores, then probabilities. Begins finite, for lanes that nobody filled.
  alignas(64) float p[kMaxQueries * kTile] = {};
  alignas(64) Sum totals[kMaxQueries * kMaxHeadDim];
  Sum weights[kMaxQueries];
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
template <typename Sum>
void DecodeKeys(
    const Params& params, const Item& item, int32_t first, int32_t end, Workspace<Sum>& work) {
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

template <typename Sum>
void DecodeValues(
    const Params& params, const Item& item, int32_t first, int32_t end, Workspace<Sum>& work) {
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
template <typename Sum>
void Dot(const float* x, int64_t stride, int n_rows, const float* panel, int64_t n, Sum* sums) {
  std::fill_n(sums, n_rows * kLanes, Sum{0});
  if (n_rows == 2) {
    simd::AddProducts<2>(x, stride, panel, n, sums);
  } else {
    simd::AddProducts<1>(x, stride, panel, n, sums);
  }
}

template <typename Sum>
void Score(
    const Params& params, const Item& item, int32_t first, int32_t end, Workspace<Sum>& work) {
  for (int32_t column = 0; column < kTile && first + column < end; column += kLanes) {
    DecodeKeys(params, item, first + column, end, work);
    for (int32_t i = 0; i < work.n_queries; i += 2) {
      const int n_rows = std::min(2, work.n_queries - i);
      Sum sums[2 * kLanes];
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
template <typename Sum>
void Soften(int32_t query, Arithmetic arithmetic, Workspace<Sum>& work) {
  const int32_t n = work.n_seen[query];
  float* p = work.p + query * kTile;
  float top = work.tops[query];
  for (int32_t i = 0; i < n; ++i) top = std::max(top, p[i]);
  for (int32_t i = 0; i < n; i += 4) {
    simd::Floats4 four;
    std::copy_n(p + i, 4, reinterpret_cast<float*>(&four));
    four = simd::Exp4(four - top, arithmetic);
    std::copy_n(reinterpret_cast<const float*>(&four), 4, p + i);
  }
  const float shrink = simd::Exp(work.tops[query] - top, arithmetic);
  const auto term = [p](int64_t i) { return p[i]; };
  Sum sum;
  if constexpr (std::is_same_v<Sum, double>) {
    sum = simd::SumExact(n, term);
  } else {
    sum = simd::LaneSumFloat32(n, term);
  }
  work.weights[query] = work.weights[query] * shrink + sum;
  work.shrinks[query] = shrink;
  work.tops[query] = top;
}

template <typename Sum>
void AddValues(int32_t head_dim, Workspace<Sum>& work) {
  for (int32_t i = 0; i < work.n_queries;) {
    const bool are_alike = i + 1 < work.n_queries && work.n_seen[i] == work.n_seen[i + 1];
    const int n_rows = are_alike ? 2 : 1;
    for (int32_t d = 0; d < head_dim && work.n_seen[i] > 0; d += kLanes) {
      Sum sums[2 * kLanes];
      Dot(work.p + i * kTile, kTile, n_rows, work.values + d * kTile, work.n_seen[i], sums);
      for (int row = 0; row < n_rows; ++row) {
        Sum* total = work.totals + (i + row) * kMaxHeadDim + d;
        const float shrink = work.shrinks[i + row];
        for (int32_t lane = 0; lane < kLanes; ++lane) {
          total[lane] = total[lane] * shrink + sums[row * kLanes + lane];
        }
      }
    }
    i += n_rows;
  }
}

template <typename Sum>
void Begin(const Params& params, const Item& item, Workspace<Sum>& work) {
  const int32_t group = params.n_heads / params.n_kv_heads;
  const int64_t n_values = int64_t{group} * params.head_dim;
  work.n_queries = item.n_rows * group;
  for (int32_t row = 0; row < item.n_rows; ++row) {
    const float* q =
        params.q + ((item.first_row + row) * params.n_kv_heads + item.kv_head) * n_values;
    std::copy_n(q, n_values, work.q + row * n_values);
  }
  for (int32_t i = 0; i < work.n_queries; ++i) {
    std::fill_n(work.totals + i * kMaxHeadDim, NumPanels(params.head_dim) * kLanes, Sum{0});
    work.weights[i] = 0;
    work.tops[i] = kLowest;
  }
}

template <typename Sum>
void RunItem(const Params& params, const Item& item, Arithmetic arithmetic, Workspace<Sum>& work) {
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
      if (work.n_seen[i] > 0) Soften(i, arithmetic, work);
    }
    DecodeValues(params, item, first, end, work);
    AddValues(params.head_dim, work);
  }
  for (int32_t i = 0; i < work.n_queries; ++i) {
    const int64_t head =
        (item.first_row + i / group) * params.n_heads + item.kv_head * group + i % group;
    Bf16* out = params.out + head * params.head_dim;
    const Sum* total = work.totals + i * kMaxHeadDim;
    for (int32_t d = 0; d < params.head_dim; ++d) {
      out[d] = ToBf16(static_cast<float>(total[d] / work.weights[i]));
    }
  }
}

// Rows of a sequence in pieces that one item takes; items are pieces times groups of heads, the
// group outermost: later pieces see more positions, and each worker gets early and late ones.
struct Pieces {
  explicit Pieces(const Params& p)
      : params(p), n_rows_each(std::max(1, kQueries / (p.n_heads / p.n_kv_heads))) {
    for (int64_t i = 0; i < p.n_sequences; ++i) n_pieces += Of(p.sequences[i]);
  }
  int64_t Of(const Sequence& sequence) const {
    return (sequence.n_rows + n_rows_each - 1) / n_rows_each;
  }
  Item At(int64_t index) const {
    int64_t piece = index % n_pieces;
    const Sequence* sequence = params.sequences;
    for (; piece >= Of(*sequence); ++sequence) piece -= Of(*sequence);
    const int64_t first = piece * n_rows_each;
    return {.sequence = sequence,
            .first_row = sequence->first_row + first,
            .n_rows = static_cast<int32_t>(std::min(n_rows_each, sequence->n_rows - first)),
            .kv_head = static_cast<int32_t>(index / n_pieces)};
  }

  const Params& params;
  const int64_t n_rows_each;
  int64_t n_pieces = 0;
};

template <typename Sum>
void RunItems(const Params& params, const Pieces& pieces, Stream& stream) {
  const Arithmetic arithmetic = stream.arithmetic;
  stream.team.Run(pieces.n_pieces * params.n_kv_heads, [&](int64_t begin, int64_t end, int32_t) {
    const simd::FlushDenormals flush(arithmetic);
    Workspace<Sum> work;
    for (int64_t i = begin; i < end; ++i) {
      RunItem(params, pieces.At(i), arithmetic, work);
    }
  });
}

}  // namespace

void Run(const Params& params, Stream& stream) {
  SLUICE_CHECK(params.head_dim > 0 && params.head_dim <= kMaxHeadDim);
  SLUICE_CHECK(params.n_heads % params.n_kv_heads == 0 &&
               params.n_heads / params.n_kv_heads <= kMaxGroup);
  const Pieces pieces(params);
  if (stream.arithmetic == Arithmetic::kExact) {
    RunItems<double>(params, pieces, stream);
  } else {
    RunItems<float>(params, pieces, stream);
  }
}

}  // namespace sluice::ops::gqa_attention
