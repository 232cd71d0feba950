#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "kernels/simd/dot_panel.h"
#include "kernels/simd/elementary.h"
#include "kernels/simd/flush_denormals.h"
#include "kernels/sparse_attention/op.h"

namespace sluice::ops::sparse_attention {
namespace {

constexpr int32_t kStep = 64;                    // columns of one step of the online softmax
constexpr int32_t kHeads = simd::kPanelOutputs;  // lanes of scores: heads that go together
constexpr int32_t kMaxHeadDim = 512;
constexpr int32_t kColumnsTogether = 2;  // scored together
// 33 cache lines: a power of two would put the keys of a step into a few sets of the cache.
constexpr int32_t kKeyStride = kMaxHeadDim + 16;
constexpr float kLowest = -1e30F;  // where the running maximum starts (spec model.md §3.4)

// The present columns of one step, decoded.
struct Tile {
  alignas(64) float keys[kStep * kKeyStride];  // [n_columns, kKeyStride]
  int32_t n_columns;
};

// Heads of one row on their way through the steps. Lanes from n_heads on hold zeros.
struct HeadGroup {
  alignas(64) float q[kMaxHeadDim * kHeads];      // [head_dim, kHeads]
  alignas(64) float total[kHeads * kMaxHeadDim];  // [n_heads, kMaxHeadDim]
  alignas(64) float step_total[kHeads * kMaxHeadDim];
  float top[kHeads];
  float weight[kHeads];
  int32_t n_heads;
  int32_t head_dim;
  float scale;
};

// Numbers of one step, [kStep, kHeads]: scores first, then probabilities relative to the maximum.
using StepNumbers = float[kStep * kHeads];

void Begin(const Bf16* q, int32_t n_heads, int32_t head_dim, float scale, HeadGroup& group) {
  group.n_heads = n_heads;
  group.head_dim = head_dim;
  group.scale = scale;
  std::fill_n(group.q, head_dim * kHeads, 0.0F);
  for (int32_t head = 0; head < n_heads; ++head) {
    for (int32_t d = 0; d < head_dim; ++d) {
      group.q[d * kHeads + head] = ToFloat(q[head * head_dim + d]);
    }
  }
  std::fill_n(group.total, n_heads * kMaxHeadDim, 0.0F);
  std::fill_n(group.top, kHeads, kLowest);
  std::fill_n(group.weight, kHeads, 0.0F);
}

void ScoreFloat32(const HeadGroup& group, const Tile& tile, StepNumbers& scores) {
  std::fill_n(scores, kStep * kHeads, 0.0F);
  int32_t column = 0;
  for (; column + kColumnsTogether <= tile.n_columns; column += kColumnsTogether) {
    simd::AddProducts<kColumnsTogether>(tile.keys + column * kKeyStride, kKeyStride, group.q,
                                        group.head_dim, scores + column * kHeads);
  }
  for (; column < tile.n_columns; ++column) {
    simd::AddProducts<1>(tile.keys + column * kKeyStride, kKeyStride, group.q, group.head_dim,
                         scores + column * kHeads);
  }
}

void ScoreExact(const HeadGroup& group, const Tile& tile, StepNumbers& scores) {
  for (int32_t column = 0; column < tile.n_columns; ++column) {
    double sums[kHeads] = {};
    for (int32_t d = 0; d < group.head_dim; ++d) {
      const double key = tile.keys[column * kKeyStride + d];
      for (int32_t head = 0; head < kHeads; ++head) sums[head] += key * group.q[d * kHeads + head];
    }
    for (int32_t head = 0; head < kHeads; ++head) {
      scores[column * kHeads + head] = static_cast<float>(sums[head]);
    }
  }
}

// Sums of the probabilities of a step, ascending by column.
void SumProbabilities(const StepNumbers& p, int32_t n_columns, Arithmetic arithmetic, float* sums) {
  if (arithmetic == Arithmetic::kExact) {
    double exact[kHeads] = {};
    for (int32_t i = 0; i < n_columns * kHeads; ++i) exact[i % kHeads] += p[i];
    for (int32_t head = 0; head < kHeads; ++head) sums[head] = static_cast<float>(exact[head]);
    return;
  }
  std::fill_n(sums, kHeads, 0.0F);
  for (int32_t i = 0; i < n_columns * kHeads; ++i) sums[i % kHeads] += p[i];
}

// Scores become probabilities, rounded to bf16 after their sum was taken; the group moves to the
// new maximum. shrink [kHeads]: what the old totals count for now.
void Soften(
    HeadGroup& group, int32_t n_columns, Arithmetic arithmetic, StepNumbers& p, float* shrink) {
  for (int32_t i = 0; i < n_columns * kHeads; ++i) p[i] *= group.scale;
  float top[kHeads];
  std::copy_n(group.top, kHeads, top);
  for (int32_t i = 0; i < n_columns * kHeads; ++i)
    top[i % kHeads] = std::max(top[i % kHeads], p[i]);
  for (int32_t i = 0; i < n_columns * kHeads; ++i) {
    p[i] = simd::Exp(p[i] - top[i % kHeads], arithmetic);
  }
  float sums[kHeads];
  SumProbabilities(p, n_columns, arithmetic, sums);
  for (int32_t head = 0; head < kHeads; ++head) {
    shrink[head] = simd::Exp(group.top[head] - top[head], arithmetic);
    group.weight[head] = group.weight[head] * shrink[head] + sums[head];
    group.top[head] = top[head];
  }
  for (int32_t i = 0; i < n_columns * kHeads; ++i) p[i] = RoundToBf16(p[i]);
}

// Four floats that are added and multiplied together, as g++ and clang spell it.
typedef float Lanes __attribute__((vector_size(16)));

// out[h][0..16) = sum over columns of p[column][h] * keys[column][0..16) for kRows heads, one chain
// per value, in registers.
template <int kRows>
void SumValues(const float* p, const float* keys, int32_t n_columns, float* out) {
  constexpr int32_t kVectors = 4;
  Lanes sum[kRows][kVectors] = {};
  for (int32_t column = 0; column < n_columns; ++column) {
    Lanes key[kVectors];
    std::memcpy(key, keys + column * kKeyStride, sizeof key);
    for (int32_t head = 0; head < kRows; ++head) {
      for (int32_t v = 0; v < kVectors; ++v) sum[head][v] += p[column * kHeads + head] * key[v];
    }
  }
  for (int32_t head = 0; head < kRows; ++head) {
    std::memcpy(out + head * kMaxHeadDim, sum[head], sizeof sum[head]);
  }
}

void StepTotalFloat32(HeadGroup& group, const Tile& tile, const StepNumbers& p) {
  for (int32_t d = 0; d < group.head_dim; d += 16) {
    int32_t head = 0;
    for (; head + 2 <= group.n_heads; head += 2) {
      float* out = group.step_total + head * kMaxHeadDim + d;
      SumValues<2>(p + head, tile.keys + d, tile.n_columns, out);
    }
    if (head < group.n_heads) {
      float* out = group.step_total + head * kMaxHeadDim + d;
      SumValues<1>(p + head, tile.keys + d, tile.n_columns, out);
    }
  }
}

void StepTotalExact(HeadGroup& group, const Tile& tile, const StepNumbers& p) {
  for (int32_t head = 0; head < group.n_heads; ++head) {
    double sums[kMaxHeadDim] = {};
    for (int32_t column = 0; column < tile.n_columns; ++column) {
      const double weight = p[column * kHeads + head];
      const float* key = tile.keys + column * kKeyStride;
      for (int32_t d = 0; d < group.head_dim; ++d) sums[d] += weight * key[d];
    }
    for (int32_t d = 0; d < group.head_dim; ++d) {
      group.step_total[head * kMaxHeadDim + d] = static_cast<float>(sums[d]);
    }
  }
}

void TakeStep(HeadGroup& group, const Tile& tile, Arithmetic arithmetic) {
  alignas(64) StepNumbers p;
  float shrink[kHeads];
  const bool exact = arithmetic == Arithmetic::kExact;
  exact ? ScoreExact(group, tile, p) : ScoreFloat32(group, tile, p);
  Soften(group, tile.n_columns, arithmetic, p, shrink);
  exact ? StepTotalExact(group, tile, p) : StepTotalFloat32(group, tile, p);
  for (int32_t head = 0; head < group.n_heads; ++head) {
    float* total = group.total + head * kMaxHeadDim;
    const float* added = group.step_total + head * kMaxHeadDim;
    for (int32_t d = 0; d < group.head_dim; ++d) total[d] = total[d] * shrink[head] + added[d];
  }
}

// The sink takes part in the denominator only; it is not scaled and has no value. A row without
// columns has its maximum at kLowest, so that its zeros are divided by infinity.
void End(const HeadGroup& group, const float* sink, Arithmetic arithmetic, Bf16* out) {
  for (int32_t head = 0; head < group.n_heads; ++head) {
    const float sink_weight = simd::Exp(sink[head] - group.top[head], arithmetic);
    const float weight = group.weight[head] + sink_weight;
    const float* total = group.total + head * kMaxHeadDim;
    for (int32_t d = 0; d < group.head_dim; ++d) {
      out[head * group.head_dim + d] = ToBf16(total[d] / weight);
    }
  }
}

// Decodes a stored row to the end of the tile.
void Append(GroupFormat format, const uint8_t* stored, int32_t head_dim, Tile& tile) {
  float* key = tile.keys + tile.n_columns * kKeyStride;
  DequantizeRow(format, stored, stored + CodeBytes(format, head_dim), head_dim, key);
  ++tile.n_columns;
}

const uint8_t* WindowRow(const Row& row, int32_t position, int32_t row_bytes) {
  if (position >= row.step_begin) {
    return row.step_rows + int64_t{position - row.step_begin} * row_bytes;
  }
  return row.ring + int64_t{position % row.ring_rows} * row_bytes;
}

// Fills the tile with the present ones of the columns [first, first + kStep).
void DecodeStep(const Params& params, const Row& row, int32_t first, Tile& tile) {
  tile.n_columns = 0;
  const int32_t row_bytes = RowBytes(GroupFormat::kFp8, params.head_dim);
  const int32_t oldest = std::max(0, row.position - params.n_window + 1);  // of column 0
  const int32_t end = std::min(first + kStep, params.n_window);
  for (int32_t column = first; column < end; ++column) {
    const int32_t position = oldest + column;
    if (position < row.window_begin || position > row.position) continue;
    Append(GroupFormat::kFp8, WindowRow(row, position, row_bytes), params.head_dim, tile);
  }
  if (row.chosen == nullptr) return;
  const int32_t entry_begin = std::max(first - params.n_window, 0);
  const int32_t entry_end = std::min(first + kStep - params.n_window, params.n_chosen_max);
  for (int32_t i = entry_begin; i < entry_end && row.chosen[i] >= 0; ++i) {
    Append(GroupFormat::kFp4Nv, row.entries.Row(row.chosen[i]), params.head_dim, tile);
  }
}

void CheckHeadDim(int32_t head_dim) { SLUICE_CHECK(head_dim % 32 == 0 && head_dim <= kMaxHeadDim); }

// Heads per work item. Fewer than fit together when there is less work than threads: the columns
// are then decoded more often.
int32_t HeadsPerItem(const Params& params, int32_t n_workers) {
  int32_t n = std::min(kHeads, params.n_heads);
  while (n > 1 && params.n_rows * ((params.n_heads + n - 1) / n) < n_workers) n /= 2;
  return n;
}

}  // namespace

void Run(const Params& params, Stream& stream) {
  CheckHeadDim(params.head_dim);
  const int32_t n_per_item = HeadsPerItem(params, stream.team.n_workers());
  const int32_t n_groups = (params.n_heads + n_per_item - 1) / n_per_item;
  stream.team.Run(params.n_rows * n_groups, [&](int64_t begin, int64_t end, int32_t) {
    const simd::FlushDenormals flush(stream.arithmetic);
    Tile tile;
    HeadGroup group;
    for (int64_t item = begin; item < end; ++item) {
      const Row& row = params.rows[item / n_groups];
      const auto head = static_cast<int32_t>(item % n_groups) * n_per_item;
      const int32_t n_heads = std::min(n_per_item, params.n_heads - head);
      const int64_t place = (item / n_groups * params.n_heads + head) * params.head_dim;
      Begin(params.q + place, n_heads, params.head_dim, params.scale, group);
      const int32_t n_chosen = row.chosen == nullptr ? 0 : params.n_chosen_max;
      for (int32_t first = 0; first < params.n_window + n_chosen; first += kStep) {
        DecodeStep(params, row, first, tile);
        if (tile.n_columns > 0) TakeStep(group, tile, stream.arithmetic);
      }
      End(group, params.sink + head, stream.arithmetic, params.out + place);
    }
  });
}

void RunDecoded(const DecodedParams& params, Arithmetic arithmetic) {
  CheckHeadDim(params.head_dim);
  const simd::FlushDenormals flush(arithmetic);
  Tile tile;
  HeadGroup group;
  for (int32_t head = 0; head < params.n_heads; head += kHeads) {
    const int32_t n_heads = std::min(kHeads, params.n_heads - head);
    const int64_t place = int64_t{head} * params.head_dim;
    Begin(params.q + place, n_heads, params.head_dim, params.scale, group);
    tile.n_columns = 0;
    for (int32_t i = 0; i < params.n_columns; ++i) {
      const float* key = params.keys + int64_t{i} * params.head_dim;
      std::copy_n(key, params.head_dim, tile.keys + tile.n_columns * kKeyStride);
      ++tile.n_columns;
      const bool is_last =
          i + 1 == params.n_columns || params.columns[i + 1] / kStep != params.columns[i] / kStep;
      if (!is_last) continue;
      TakeStep(group, tile, arithmetic);
      tile.n_columns = 0;
    }
    End(group, params.sink + head, arithmetic, params.out + place);
  }
}

}  // namespace sluice::ops::sparse_attention
