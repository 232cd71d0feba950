// RandomTensor: one tensor of a random model, any rows of it at a time. Immutable after
// construction; thread-safe.
//
// 1. A byte depends on the seed, the tensor's name and its place alone: not on what was asked for
//    before, and not on threads. Only integers and correctly rounded operations lead to it, so it
//    is the same on every machine.
// 2. Distributions are those of reference/make_golden.py, so that activations stay in range at any
//    width and every mechanism acts: clamps, expert biases, sinks, gates, top-k.
// 3. Quantised weights are normal values quantised in their groups; the scales fit them.

#pragma once

#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "model/deepseek_v41/tensor_list.h"

namespace sluice::model::deepseek_v41 {

struct RandomSource {
  uint64_t seed = 0;
  double query_gain = 0;  // Preset::query_gain
};

class RandomTensor {
 public:
  // Of ListTensors. For scales, `codes` is the spec of the tensor before, to which they belong;
  // else it is `spec` itself. Tensors of the image encoder have no distribution.
  RandomTensor(const TensorSpec& spec, const TensorSpec& codes, const RandomSource& source);

  // The tensor is cut into slabs of rows that are quantised together: 32 for FP8 matrices, else 1;
  // of scales, one row. A vector is one row.
  int64_t n_slabs() const { return n_slabs_; }
  // Bytes of the slabs [begin, end), which lie together; slab i begins at SlabBytes(0, i).
  int64_t SlabBytes(int64_t begin, int64_t end) const;
  // out [SlabBytes(begin, end)].
  void Fill(int64_t begin, int64_t end, std::byte* out) const;

 private:
  // A draw is the sum of 8 random bytes: bell-shaped, of 2,041 values. So a table turns it to
  // bytes.
  static constexpr int32_t kMaxDraw = 8 * 255;
  static constexpr int32_t kMeanDraw = kMaxDraw / 2;
  static constexpr int32_t kNumDraws = kMaxDraw + 1;
  // A quarter of the standard deviation. One group of 32 in 10^22 stays below it, and may then have
  // the scale of this.
  static constexpr int32_t kLeastPeak = 52;

  uint64_t BitsAt(int64_t index) const;
  int32_t DrawAt(int64_t index) const;
  // Largest distance from the mean draw in a group of rows [row, row + n_rows) and 32 columns.
  int32_t PeakOf(int64_t row, int64_t n_rows, int64_t column, uint16_t* draws) const;
  int32_t RowExponent(int64_t row) const;

  void MakePlainTable(double mean, double std);
  void MakeExponents(double std);
  void MakeCodes(double std);
  void FillPlain(int64_t slab, std::byte* out) const;
  void FillFp8(int64_t slab, std::byte* out) const;
  void FillFp4(int64_t row, std::byte* out) const;
  void FillScales(int64_t slab, std::byte* out) const;

  DType dtype_ = DType::kBf16;
  Encoding encoding_ = Encoding::kPlain;
  bool is_fp4_ = false;      // the codes, or what the scales are of
  bool is_table_ = false;    // Engram: rows of different size
  bool is_uniform_ = false;  // between 0.5 and 1.5
  int64_t n_rows_ = 0;       // of values
  int64_t n_columns_ = 0;
  int64_t n_slab_rows_ = 0;  // of values
  int64_t n_slabs_ = 0;
  int64_t row_bytes_ = 0;  // of what is written
  uint64_t key_ = 0;
  uint64_t row_key_ = 0;

  std::vector<float> values_;       // [kNumDraws]; plain tensors
  std::vector<uint16_t> bf16s_;     // the same as bf16
  std::vector<int32_t> exponents_;  // [kMeanDraw + 1]: of the scale, by the peak of the group
  int32_t exponent_min_ = 0;
  std::vector<uint8_t> codes_;  // [exponents from exponent_min_, kNumDraws]
};

}  // namespace sluice::model::deepseek_v41
