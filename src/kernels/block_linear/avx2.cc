// y = x W^T with W in blocks: the formula with its loops turned so that a baseline machine can
// serve from it.
//
// A worker takes 16 outputs, a tile, and of their rows one block after another. The codes of a
// group are turned into columns of 16 outputs; then each row of x goes over them. One row alone
// uses the columns as they are made; several rows share them as floats. Products, sums and their
// order are the same in both ways, so a row does not know how many go with it.

#include <emmintrin.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "kernels/block_linear/op.h"
#include "kernels/simd/code_columns.h"
#include "kernels/simd/dot_panel.h"
#include "kernels/simd/flush_denormals.h"
#include "tensor/block_decode.h"

namespace sluice::ops::block_linear::avx2 {
namespace {

constexpr int64_t kOutputs = 16;
constexpr int kVectors = kOutputs / 4;
// Rows that share what was decoded. It costs a row as much as 4 rows of products: 32 rows take 1.05
// times as long each, 128 no less.
constexpr int64_t kRows = 64;
// Inputs are made floats, and added up for the minima, once for so many tiles.
constexpr int64_t kTiles = 8;
// Room for the inputs of kRows rows; fewer rows take longer pieces. A multiple of kRows blocks.
constexpr int64_t kInputs = kRows * 2 * kMaxBlockValues;

struct Range {
  int64_t first = 0;
  int64_t n = 0;
};

Range RangeFrom(int64_t first, int64_t end, int64_t n_max) {
  return {.first = first, .n = std::min(n_max, end - first)};
}

struct Workspace {
  alignas(64) float sums[kTiles * kRows * kOutputs];  // wait here between pieces of the inputs
  alignas(64) float x[kInputs];                       // [rows, inputs.n]
  alignas(64) float x_sums[kInputs / 16];             // t_g, [rows, groups]
  // Of one block and 16 outputs.
  alignas(64) int8_t codes[kOutputs * kMaxBlockValues];
  alignas(64) float scales[kMaxBlockGroups * kOutputs];  // [group, output]
  alignas(64) float mins[kMaxBlockGroups * kOutputs];
  // Of one group.
  alignas(64) __m128i columns[32];
  alignas(64) float panel[32 * kOutputs];
};

template <MatrixFormat kFormat>
struct Traits {
  static constexpr BlockShape kShape = ShapeOf(kFormat);
  static constexpr int64_t kGroup = kShape.group;
  static constexpr int64_t kGroups = kShape.n_values / kShape.group;
  static constexpr bool kSigned = !kShape.has_min;
  // Blocks of 16 bytes of nibbles are turned before they are split: half the work.
  static constexpr bool kTurnsPacked =
      kFormat == MatrixFormat::kQ4_0 || kFormat == MatrixFormat::kQ4_1;
};

// x as floats, and t_g of each group where there are minima.
template <MatrixFormat kFormat>
void LoadInputs(const Params& params, Range rows, Range inputs, Workspace& work) {
  constexpr int64_t kGroup = Traits<kFormat>::kGroup;
  for (int64_t row = 0; row < rows.n; ++row) {
    const Bf16* x = params.x + (rows.first + row) * params.x_stride + inputs.first;
    float* out = work.x + row * inputs.n;
    for (int64_t k = 0; k < inputs.n; ++k) out[k] = ToFloat(x[k]);
    if (!Traits<kFormat>::kShape.has_min) continue;
    float* sums = work.x_sums + row * (inputs.n / kGroup);
    for (int64_t group = 0; group < inputs.n / kGroup; ++group) {
      const float* values = out + group * kGroup;
      float sum = 0;
      for (int64_t k = 0; k < kGroup; k += 2) {
        sum += values[k + 1];
        sum += values[k];
      }
      sums[group] = sum;
    }
  }
}

// Codes, scales and minima of block `block` of 16 rows of the weight. Behind its last row that row
// stands again; nobody stores what comes of it.
template <MatrixFormat kFormat>
void LoadBlocks(const Matrix& weight, Range outputs, int64_t block, Workspace& work) {
  using T = Traits<kFormat>;
  const int64_t row_bytes = weight.n_in / T::kShape.n_values * T::kShape.n_bytes;
  const auto* first = static_cast<const uint8_t*>(weight.data) + outputs.first * row_bytes +
                      block * T::kShape.n_bytes;
  uint16_t scales[kOutputs];
  uint16_t mins[kOutputs];
  for (int64_t o = 0; o < kOutputs; ++o) {
    const uint8_t* bytes = first + std::min(o, outputs.n - 1) * row_bytes;
    for (int64_t line = 0; line < T::kShape.n_bytes; line += 64) {
      _mm_prefetch(bytes + kOutputs * row_bytes + line, _MM_HINT_T0);
    }
    if constexpr (T::kTurnsPacked) {
      std::memcpy(work.codes + o * 16, bytes + T::kShape.n_bytes - 16, 16);
    } else {
      DecodeCodes<kFormat>(bytes, work.codes + o * T::kShape.n_values);
    }
    if constexpr (T::kGroups == 1) {
      scales[o] = F16BitsAt(bytes + ScaleByteOf(kFormat));
      mins[o] = F16BitsAt(bytes + kMinByte);
    } else {
      float row_scales[T::kGroups];
      float row_mins[T::kGroups];
      DecodeScales<kFormat>(bytes, row_scales, row_mins);
      for (int64_t group = 0; group < T::kGroups; ++group) {
        work.scales[group * kOutputs + o] = row_scales[group];
        if (T::kShape.has_min) work.mins[group * kOutputs + o] = row_mins[group];
      }
    }
  }
  if constexpr (T::kGroups == 1) {
    simd::F16ToFloats(scales, work.scales);
    if (T::kShape.has_min) simd::F16ToFloats(mins, work.mins);
  }
}

// A column of 16 weights from the panel of a group.
struct PanelColumn {
  const float* weights;
  __m128 Get(int v) const { return _mm_load_ps(weights + v * 4); }
};

// The chains s_g of kCount rows with 16 outputs. column_at(k).Get(v): weights of input k.
template <int kCount, typename ColumnAt>
inline void SumGroup(const float* x,
                     int64_t x_stride,
                     int64_t n,
                     const ColumnAt& column_at,
                     __m128 (&sums)[kCount][kVectors]) {
  for (auto& row_sums : sums) {
    for (__m128& sum : row_sums) sum = _mm_setzero_ps();
  }
  const auto add = [&](int64_t k) __attribute__((always_inline)) {
    const auto column = column_at(k);
    __m128 inputs[kCount];
    for (int row = 0; row < kCount; ++row) inputs[row] = _mm_set1_ps(x[row * x_stride + k]);
    for (int v = 0; v < kVectors; ++v) {
      const __m128 weights = column.Get(v);
      for (int row = 0; row < kCount; ++row) {
        sums[row][v] = _mm_add_ps(sums[row][v], _mm_mul_ps(inputs[row], weights));
      }
    }
  };
  for (int64_t k = 0; k < n; k += 2) {
    add(k + 1);
    add(k);
  }
}

// sums += scale * s_g, then += min * t_g.
template <int kCount, bool kHasMin>
inline void AddGroup(const __m128 (&group)[kCount][kVectors],
                     const float* scales,
                     const float* mins,
                     const float* x_sums,
                     int64_t x_sums_stride,
                     float* sums) {
  for (int row = 0; row < kCount; ++row) {
    for (int v = 0; v < kVectors; ++v) {
      float* at = sums + row * kOutputs + v * 4;
      __m128 sum = _mm_load_ps(at);
      sum = _mm_add_ps(sum, _mm_mul_ps(_mm_load_ps(scales + v * 4), group[row][v]));
      if constexpr (kHasMin) {
        const __m128 x_sum = _mm_set1_ps(x_sums[row * x_sums_stride]);
        sum = _mm_add_ps(sum, _mm_mul_ps(_mm_load_ps(mins + v * 4), x_sum));
      }
      _mm_store_ps(at, sum);
    }
  }
}

// What one group adds to the sums of all rows. `at`: its first value within the piece of inputs.
template <MatrixFormat kFormat>
class GroupOfTile {
 public:
  GroupOfTile(Workspace& work, Range rows, Range inputs, float* sums)
      : work_(work), rows_(rows), n_inputs_(inputs.n), sums_(sums) {}

  void Add(int64_t group, int64_t at) {
    MakeColumns(group);
    if (rows_.n == 1) {
      AddRows<1>(group, at, 0,
                 [&](int64_t k) { return simd::WidenedBytes<T::kSigned>(work_.columns[k]); });
      return;
    }
    for (int64_t k = 0; k < T::kGroup; ++k) {
      const simd::WidenedBytes<T::kSigned> column(work_.columns[k]);
      float* out = work_.panel + k * kOutputs;
      for (int v = 0; v < kVectors; ++v) _mm_store_ps(out + v * 4, column.Get(v));
    }
    const auto from_panel = [&](int64_t k) { return PanelColumn{work_.panel + k * kOutputs}; };
    int64_t row = 0;
    for (; row + 1 < rows_.n; row += 2) AddRows<2>(group, at, row, from_panel);
    if (row < rows_.n) AddRows<1>(group, at, row, from_panel);
  }

 private:
  using T = Traits<kFormat>;

  void MakeColumns(int64_t group) {
    if constexpr (T::kTurnsPacked) {
      simd::TransposeBytes(work_.codes, 16, work_.columns);
      const __m128i nibble = _mm_set1_epi8(15);
      const __m128i zero_code = _mm_set1_epi8(T::kSigned ? 8 : 0);
      for (int64_t k = 0; k < 16; ++k) {
        const __m128i pair = work_.columns[k];
        const __m128i high = _mm_and_si128(_mm_srli_epi16(pair, 4), nibble);
        work_.columns[k] = _mm_sub_epi8(_mm_and_si128(pair, nibble), zero_code);
        work_.columns[16 + k] = _mm_sub_epi8(high, zero_code);
      }
      return;
    }
    for (int64_t k = 0; k < T::kGroup; k += 16) {
      simd::TransposeBytes(work_.codes + group * T::kGroup + k, T::kShape.n_values,
                           work_.columns + k);
    }
  }

  template <int kCount, typename ColumnAt>
  void AddRows(int64_t group, int64_t at, int64_t row, const ColumnAt& column_at) {
    __m128 sums[kCount][kVectors];
    SumGroup<kCount>(work_.x + row * n_inputs_ + at, n_inputs_, T::kGroup, column_at, sums);
    const int64_t n_groups = n_inputs_ / T::kGroup;
    AddGroup<kCount, T::kShape.has_min>(
        sums, work_.scales + group * kOutputs, work_.mins + group * kOutputs,
        work_.x_sums + row * n_groups + at / T::kGroup, n_groups, sums_ + row * kOutputs);
  }

  Workspace& work_;
  const Range rows_;
  const int64_t n_inputs_;
  float* const sums_;
};

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

// All inputs of these rows and tiles; at most kRows and kTiles.
template <MatrixFormat kFormat>
void RunTiles(const Params& params, Range rows, Range tiles, Workspace& work) {
  using T = Traits<kFormat>;
  const Matrix& weight = params.weight;
  const auto outputs_of = [&](int64_t tile) {
    return RangeFrom((tiles.first + tile) * kOutputs, weight.n_out, kOutputs);
  };
  std::fill_n(work.sums, tiles.n * rows.n * kOutputs, 0.0F);
  const int64_t n_inputs_max = kInputs / rows.n / kMaxBlockValues * kMaxBlockValues;
  for (int64_t first = 0; first < weight.n_in; first += n_inputs_max) {
    const Range inputs = RangeFrom(first, weight.n_in, n_inputs_max);
    LoadInputs<kFormat>(params, rows, inputs, work);
    for (int64_t tile = 0; tile < tiles.n; ++tile) {
      GroupOfTile<kFormat> groups(work, rows, inputs, work.sums + tile * rows.n * kOutputs);
      for (int64_t at = 0; at < inputs.n; at += T::kShape.n_values) {
        LoadBlocks<kFormat>(weight, outputs_of(tile), (first + at) / T::kShape.n_values, work);
        for (int64_t group = 0; group < T::kGroups; ++group) {
          groups.Add(group, at + group * T::kGroup);
        }
      }
    }
  }
  for (int64_t tile = 0; tile < tiles.n; ++tile) {
    StoreSums(params, rows, outputs_of(tile), work.sums + tile * rows.n * kOutputs);
  }
}

void RunFloat32(const Params& params, int64_t begin, int64_t end) {
  const simd::FlushDenormals flush(Arithmetic::kFloat32);
  Workspace work;
  WithBlockFormat(params.weight.format, [&](auto tag) {
    for (int64_t first_row = 0; first_row < params.n_rows; first_row += kRows) {
      const Range rows = RangeFrom(first_row, params.n_rows, kRows);
      for (int64_t tile = begin; tile < end; tile += kTiles) {
        RunTiles<tag.kFormat>(params, rows, RangeFrom(tile, end, kTiles), work);
      }
    }
  });
}

}  // namespace

void Run(const Params& params, Stream& stream) {
  const int64_t n_tiles = (params.weight.n_out + kOutputs - 1) / kOutputs;
  stream.team.Run(n_tiles,
                  [&](int64_t begin, int64_t end, int32_t) { RunFloat32(params, begin, end); });
}

}  // namespace sluice::ops::block_linear::avx2
