// y = x W^T with W in blocks, for AVX2: every format, in rows and packed.
//
// A worker takes 32 outputs, a tile, which is a stripe of a packed matrix, and one group of inputs
// after another. The codes of a group become a panel of floats, its outputs side by side, and each
// row of x goes over it. What is decoded serves up to 64 rows; inputs are made floats, and added up
// for the minima, once for several tiles.

#include <immintrin.h>

#include "kernels/block_linear/op.h"
#include "kernels/simd/code_columns.h"
#include "kernels/simd/dot_panel.h"
#include "kernels/simd/flush_denormals.h"
#include "tensor/block_decode.h"
#include "tensor/packed.h"

namespace sluice::ops::block_linear::avx2 {
namespace {

constexpr int64_t kOutputs = 32;
constexpr int kVectors = kOutputs / 8;  // four chains: one row waits for its additions, two do not
constexpr int64_t kRows = 64;
constexpr int64_t kTiles = 8;
// Room for the inputs of kRows rows; fewer rows take longer pieces. A multiple of kRows blocks.
constexpr int64_t kInputs = kRows * 2 * kMaxBlockValues;
constexpr int64_t kPrefetchBytes = 8 * 1024;

struct Range {
  int64_t first = 0;
  int64_t n = 0;
};

inline Range RangeFrom(int64_t first, int64_t end, int64_t n_max) {
  return {.first = first, .n = end - first < n_max ? end - first : n_max};
}

struct Workspace {
  alignas(64) float sums[kTiles * kRows * kOutputs];  // wait here between pieces of the inputs
  alignas(64) float x[kInputs];                       // [rows, inputs.n]
  alignas(64) float x_sums[kInputs / 16];             // t_g, [rows, groups]
  // Of one block and 32 outputs.
  alignas(64) int8_t codes[kOutputs * kMaxBlockValues];
  alignas(64) float scales[kMaxBlockGroups * kOutputs];  // [group, output]
  alignas(64) float mins[kMaxBlockGroups * kOutputs];
  // Of one group.
  alignas(64) float panel[32 * kOutputs];
};

template <MatrixFormat kFormat>
struct Traits {
  static constexpr BlockShape kShape = ShapeOf(kFormat);
  static constexpr int64_t kGroup = kShape.group;
  static constexpr int64_t kGroups = kShape.n_values / kShape.group;
  static constexpr bool kIsNibbles =
      kFormat == MatrixFormat::kQ4_0 || kFormat == MatrixFormat::kQ4_1;
  static constexpr int kZeroCode = kFormat == MatrixFormat::kQ4_0 ? 8 : 0;
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
      float sum = 0;
      for (int64_t k = 0; k < kGroup; ++k) sum = sum + out[group * kGroup + (k ^ 1)];
      sums[group] = sum;
    }
  }
}

inline void SixteenF16(const uint8_t* bytes, float* out) {
  for (int i = 0; i < 16; i += 8) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes + i * 2));
    _mm256_store_ps(out + i, _mm256_cvtph_ps(halves));
  }
}

// Eight whole numbers of 32 bits.
inline void StoreFloats(__m256i numbers, float* out) {
  _mm256_store_ps(out, _mm256_cvtepi32_ps(numbers));
}

// Outputs of a tile whose weights stand in rows.
template <MatrixFormat kFormat>
class TileInRows {
 public:
  TileInRows(const Matrix& weight, Range outputs)
      : row_bytes_(weight.n_in / T::kShape.n_values * T::kShape.n_bytes),
        first_(static_cast<const uint8_t*>(weight.data) + outputs.first * row_bytes_),
        n_outputs_(outputs.n) {}

  // Codes, scales and minima. Behind the last output that one stands again; nobody stores what
  // comes of it. The next tile's block is asked for: 32 rows are 32 streams, which hardware does
  // not follow.
  void LoadBlocks(int64_t block, Workspace& work) const {
    alignas(16) uint16_t scales[kOutputs];
    alignas(16) uint16_t mins[kOutputs];
    for (int64_t o = 0; o < kOutputs; ++o) {
      const int64_t row = o < n_outputs_ ? o : n_outputs_ - 1;
      const uint8_t* bytes = first_ + row * row_bytes_ + block * T::kShape.n_bytes;
      for (int64_t line = 0; line < T::kShape.n_bytes; line += 64) {
        _mm_prefetch(bytes + kOutputs * row_bytes_ + line, _MM_HINT_T0);
      }
      if constexpr (T::kIsNibbles) {
        // They are turned before they are split: half the work.
        __builtin_memcpy(work.codes + o * 16, bytes + T::kShape.n_bytes - 16, 16);
      } else {
        DecodeCodes<kFormat>(bytes, work.codes + o * T::kShape.n_values);
      }
      if constexpr (T::kGroups == 1) {
        scales[o] = F16BitsAt(bytes + ScaleByteOf(kFormat));
        mins[o] = F16BitsAt(bytes + kMinByte);
      } else {
        StoreScales(bytes, o, work);
      }
    }
    for (int64_t o = 0; o < kOutputs && T::kGroups == 1; o += 16) {
      SixteenF16(reinterpret_cast<const uint8_t*>(scales + o), work.scales + o);
      if (T::kShape.has_min) SixteenF16(reinterpret_cast<const uint8_t*>(mins + o), work.mins + o);
    }
  }

  void MakePanel(int64_t group, Workspace& work) const {
    for (int64_t o = 0; o < kOutputs; o += 16) {
      for (int64_t k = 0; k < T::kGroup; k += 16) {
        if (T::kIsNibbles && k > 0) break;  // they came with the first half
        __m128i columns[16];
        if constexpr (T::kIsNibbles) {
          simd::TransposeBytes(work.codes + o * 16, 16, columns);
        } else {
          simd::TransposeBytes(work.codes + o * T::kShape.n_values + group * T::kGroup + k,
                               T::kShape.n_values, columns);
        }
        for (int64_t i = 0; i < 16; ++i) {
          StoreColumn(columns[i], work.panel + (k + i) * kOutputs + o);
        }
      }
    }
  }

 private:
  using T = Traits<kFormat>;

  static void StoreScales(const uint8_t* block, int64_t output, Workspace& work) {
    float scales[T::kGroups];
    float mins[T::kGroups];
    DecodeScales<kFormat>(block, scales, mins);
    for (int64_t group = 0; group < T::kGroups; ++group) {
      work.scales[group * kOutputs + output] = scales[group];
      if (T::kShape.has_min) work.mins[group * kOutputs + output] = mins[group];
    }
  }

  // One input of 16 outputs, or inputs k and k + 16 of them in nibbles.
  static void StoreColumn(__m128i column, float* out) {
    for (int half = 0; half < 16; half += 8) {
      const __m128i bytes = half == 0 ? column : _mm_srli_si128(column, 8);
      if constexpr (T::kIsNibbles) {
        const __m256i zero = _mm256_set1_epi32(T::kZeroCode);
        const __m256i pairs = _mm256_cvtepu8_epi32(bytes);
        const __m256i low = _mm256_and_si256(pairs, _mm256_set1_epi32(15));
        StoreFloats(_mm256_sub_epi32(low, zero), out + half);
        const __m256i high = _mm256_srli_epi32(pairs, 4);
        StoreFloats(_mm256_sub_epi32(high, zero), out + 16 * kOutputs + half);
      } else {
        StoreFloats(_mm256_cvtepi8_epi32(bytes), out + half);
      }
    }
  }

  const int64_t row_bytes_;
  const uint8_t* const first_;
  const int64_t n_outputs_;
};

// Of one stripe of a packed matrix; a block is a group.
template <MatrixFormat kFormat>
class TilePacked {
 public:
  TilePacked(const Matrix& weight, Range outputs)
      : stripe_(static_cast<const uint8_t*>(weight.data) +
                outputs.first / kOutputs * RecordsOf(weight) * kPacked.n_bytes) {}

  void LoadBlocks(int64_t block, Workspace& work) {
    record_ = stripe_ + block * kPacked.n_bytes;
    for (int64_t o = 0; o < kOutputs; o += 16) {
      SixteenF16(record_ + o * 2, work.scales + o);
      if (T::kShape.has_min) SixteenF16(record_ + (kOutputs + o) * 2, work.mins + o);
    }
  }

  void MakePanel(int64_t /*group*/, Workspace& work) const {
    constexpr int64_t kHalf = kLineBytes / 2;  // 8 outputs
    constexpr int64_t kAhead = kPrefetchBytes / kPacked.n_bytes * kPacked.n_bytes;
    for (int64_t at = kPacked.n_header_bytes; at < kPacked.n_bytes; at += kHalf) {
      const int64_t index = (at - kPacked.n_header_bytes) / kHalf;
      const int64_t line = index / (kOutputs / 8);
      const __m256i lanes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(record_ + at));
      _mm_prefetch(record_ + at + kAhead, _MM_HINT_T0);
      float* out = work.panel + index % (kOutputs / 8) * 8;
      if constexpr (T::kIsNibbles) {
        StoreNibbles(lanes, out + line * 8 * kOutputs);
      } else {
        StoreBytes(lanes, out + line * 4 * kOutputs);
      }
    }
  }

 private:
  using T = Traits<kFormat>;
  static constexpr PackedShape kPacked = PackedShapeOf(kFormat);

  // Even inputs in the low half of a lane, odd ones in the high half.
  static void StoreNibbles(__m256i lanes, float* out) {
    for (int input = 0; input < 8; ++input) {
      const __m256i code = _mm256_and_si256(
          _mm256_srli_epi32(lanes, input / 2 * 4 + input % 2 * 16), _mm256_set1_epi32(15));
      StoreFloats(_mm256_sub_epi32(code, _mm256_set1_epi32(T::kZeroCode)), out + input * kOutputs);
    }
  }

  // Sign and magnitude; of each 16 bytes inputs 0 and 1 of four outputs, then 2 and 3.
  static void StoreBytes(__m256i lanes, float* out) {
    for (int input = 0; input < 4; ++input) {
      const int first = input / 2 * 8 + input % 2;
      const __m256i to_lanes =
          _mm256_add_epi32(_mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6),
                           _mm256_set1_epi32(static_cast<int>(0x80808000U) + first));
      const __m256i code = _mm256_shuffle_epi8(lanes, to_lanes);
      const __m256i magnitude = _mm256_and_si256(code, _mm256_set1_epi32(0x7F));
      const __m256i sign = _mm256_slli_epi32(_mm256_srli_epi32(code, 7), 31);
      const __m256 value = _mm256_xor_ps(_mm256_cvtepi32_ps(magnitude), _mm256_castsi256_ps(sign));
      _mm256_store_ps(out + input * kOutputs, value);
    }
  }

  const uint8_t* const stripe_;
  const uint8_t* record_ = nullptr;
};

// What one group adds to the sums of kCount rows.
struct Group {
  int64_t n = 0;
  const float* panel = nullptr;  // [n, kOutputs]
  const float* scales = nullptr;
  const float* mins = nullptr;
};
struct RowsOfX {
  const float* x = nullptr;  // [kCount, x_stride], at the group
  int64_t x_stride = 0;
  const float* x_sums = nullptr;
  int64_t x_sums_stride = 0;
};

template <int kCount, bool kHasMin>
SLUICE_HOT_LOOP void AddGroup(const Group& group, const RowsOfX& rows, float* sums) {
  __m256 chains[kCount][kVectors];
  for (auto& chain : chains) {
    for (__m256& sum : chain) sum = _mm256_setzero_ps();
  }
  for (int64_t i = 0; i < group.n; ++i) {
    const int64_t k = i ^ 1;  // the odd one of a pair first
    const float* weights = group.panel + k * kOutputs;
    __m256 inputs[kCount];
    for (int row = 0; row < kCount; ++row) {
      inputs[row] = _mm256_broadcast_ss(rows.x + row * rows.x_stride + k);
    }
    for (int v = 0; v < kVectors; ++v) {
      const __m256 weight = _mm256_load_ps(weights + v * 8);
      for (int row = 0; row < kCount; ++row) {
        chains[row][v] = _mm256_fmadd_ps(inputs[row], weight, chains[row][v]);
      }
    }
  }
  for (int row = 0; row < kCount; ++row) {
    for (int v = 0; v < kVectors; ++v) {
      float* at = sums + row * kOutputs + v * 8;
      const __m256 scaled = _mm256_mul_ps(_mm256_load_ps(group.scales + v * 8), chains[row][v]);
      __m256 sum = _mm256_add_ps(_mm256_load_ps(at), scaled);
      if constexpr (kHasMin) {
        const __m256 x_sum = _mm256_broadcast_ss(rows.x_sums + row * rows.x_sums_stride);
        sum = _mm256_add_ps(sum, _mm256_mul_ps(_mm256_load_ps(group.mins + v * 8), x_sum));
      }
      _mm256_store_ps(at, sum);
    }
  }
}

// One group for all rows, three at a time: 12 chains leave 4 of 16 registers.
template <bool kHasMin>
void AddGroupToRows(const Group& group, const RowsOfX& rows, int64_t n_rows, float* sums) {
  for (int64_t row = 0; row < n_rows; row += 3) {
    const RowsOfX from = {.x = rows.x + row * rows.x_stride,
                          .x_stride = rows.x_stride,
                          .x_sums = rows.x_sums + row * rows.x_sums_stride,
                          .x_sums_stride = rows.x_sums_stride};
    float* out = sums + row * kOutputs;
    if (n_rows - row >= 3) {
      AddGroup<3, kHasMin>(group, from, out);
    } else if (n_rows - row == 2) {
      AddGroup<2, kHasMin>(group, from, out);
    } else {
      AddGroup<1, kHasMin>(group, from, out);
    }
  }
}

// A piece of the inputs of one tile.
template <MatrixFormat kFormat, typename Tile>
void RunTile(Tile tile, int64_t n_rows, Range inputs, Workspace& work, float* sums) {
  using T = Traits<kFormat>;
  for (int64_t at = 0; at < inputs.n; at += T::kShape.n_values) {
    tile.LoadBlocks((inputs.first + at) / T::kShape.n_values, work);
    for (int64_t group = 0; group < T::kGroups; ++group) {
      tile.MakePanel(group, work);
      const int64_t first = at + group * T::kGroup;
      const Group of_tile = {.n = T::kGroup,
                             .panel = work.panel,
                             .scales = work.scales + group * kOutputs,
                             .mins = work.mins + group * kOutputs};
      const RowsOfX rows = {.x = work.x + first,
                            .x_stride = inputs.n,
                            .x_sums = work.x_sums + first / T::kGroup,
                            .x_sums_stride = inputs.n / T::kGroup};
      AddGroupToRows<T::kShape.has_min>(of_tile, rows, n_rows, sums);
    }
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

// All inputs of these rows and tiles; at most kRows and kTiles.
template <MatrixFormat kFormat>
void RunTiles(const Params& params, Range rows, Range tiles, Workspace& work) {
  const Matrix& weight = params.weight;
  const auto outputs_of = [&](int64_t tile) {
    return RangeFrom((tiles.first + tile) * kOutputs, weight.n_out, kOutputs);
  };
  __builtin_memset(work.sums, 0, sizeof(float) * static_cast<size_t>(tiles.n * rows.n * kOutputs));
  const int64_t n_inputs_max = kInputs / rows.n / kMaxBlockValues * kMaxBlockValues;
  for (int64_t first = 0; first < weight.n_in; first += n_inputs_max) {
    const Range inputs = RangeFrom(first, weight.n_in, n_inputs_max);
    LoadInputs<kFormat>(params, rows, inputs, work);
    for (int64_t tile = 0; tile < tiles.n; ++tile) {
      float* sums = work.sums + tile * rows.n * kOutputs;
      if constexpr (PackedShapeOf(kFormat).n_rows > 0) {
        if (weight.layout == MatrixLayout::kPacked) {
          RunTile<kFormat>(TilePacked<kFormat>(weight, outputs_of(tile)), rows.n, inputs, work,
                           sums);
          continue;
        }
      }
      RunTile<kFormat>(TileInRows<kFormat>(weight, outputs_of(tile)), rows.n, inputs, work, sums);
    }
  }
  for (int64_t tile = 0; tile < tiles.n; ++tile) {
    StoreSums(params, rows, outputs_of(tile), work.sums + tile * rows.n * kOutputs);
  }
}

}  // namespace

void Run(const Params& params, Stream& stream) {
  const int64_t n_tiles = (params.weight.n_out + kOutputs - 1) / kOutputs;
  stream.team.Run(n_tiles, [&](int64_t begin, int64_t end, int32_t) {
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
  });
}

}  // namespace sluice::ops::block_linear::avx2
