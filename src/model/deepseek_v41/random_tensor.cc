#include "model/deepseek_v41/random_tensor.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/rng.h"
#include "base/sha256.h"
#include "tensor/formats.h"

namespace sluice::model::deepseek_v41 {
namespace {

constexpr int64_t kGroup = 32;
constexpr double kDrawStd = 209.02153;  // sqrt(8 (256^2 - 1) / 12)

// Keys of RandomBits: what is drawn for a tensor.
enum Stream : uint64_t { kValues = 0x7765696768747301, kRows = 0x7765696768747302 };

struct Distribution {
  std::string_view suffix;  // of the name, without .weight
  enum Kind : uint8_t {
    kNormal,   // mean and standard deviation
    kMatrix,   // mean 0, deviation gain / sqrt(n_in): outputs are `gain` times as large as inputs
    kQueries,  // the same with RandomSource::query_gain
    kUniform,  // 0.5 to 1.5
    kTable,    // normal, rows times 2^-2 to 2^2
  } kind = kNormal;
  double scale = 1;  // standard deviation or gain
  double mean = 0;
};

// The first that fits counts.
constexpr Distribution kDistributions[] = {
    {"engram.embed", Distribution::kTable},
    {"embed", Distribution::kNormal},
    {"markov_head.head", Distribution::kMatrix, 1.5},
    {"head", Distribution::kMatrix, 2.5},
    {"norm", Distribution::kNormal, 0.2, 1},
    {"image_start", Distribution::kNormal},
    {"image_end", Distribution::kNormal},
    {"image_newline", Distribution::kNormal},
    {"attn_sink", Distribution::kNormal, 1, 0.5},
    {"attn.wq_a", Distribution::kMatrix},
    {"attn.wq_b", Distribution::kQueries},
    {"attn.wkv", Distribution::kMatrix},
    {"attn.wo_a", Distribution::kMatrix, 0.5},
    {"attn.wo_b", Distribution::kMatrix, 1.2},
    {"ffn.gate", Distribution::kMatrix, 2},
    {"ffn.gate.bias", Distribution::kNormal, 0.25},
    {"ffn.gate.bias_vl", Distribution::kNormal, 0.25},
    // Gate and up are three times as large as the input, so that a few in a thousand meet the
    // clamp; what they make of it is brought back to the size of the streams.
    {".w1", Distribution::kMatrix, 3},
    {".w3", Distribution::kMatrix, 3},
    {".w2", Distribution::kMatrix, 0.03},
    {"hc_attn_fn", Distribution::kMatrix},
    {"hc_ffn_fn", Distribution::kMatrix},
    {"hc_attn_base", Distribution::kNormal, 0.5},
    {"hc_ffn_base", Distribution::kNormal, 0.5},
    {"hc_attn_scale", Distribution::kUniform},
    {"hc_ffn_scale", Distribution::kUniform},
    {"compressor.wkv", Distribution::kMatrix},
    {"compressor.wgate", Distribution::kMatrix},
    {"indexer.wk", Distribution::kMatrix},
    {"indexer.wq_b", Distribution::kMatrix},
    {"indexer.weights_proj", Distribution::kMatrix},
    {"engram.q_weight", Distribution::kNormal, 0.3, 1},
    {"engram.k_weight", Distribution::kNormal, 0.3, 1},
    {"engram.wkv", Distribution::kMatrix, 0.5},
    {"main_proj", Distribution::kMatrix},
    {"confidence_head.proj", Distribution::kMatrix},
};

const Distribution& DistributionOf(std::string_view name) {
  if (name.ends_with(".weight")) name.remove_suffix(std::strlen(".weight"));
  const auto* found =
      std::find_if(std::begin(kDistributions), std::end(kDistributions),
                   [name](const Distribution& d) { return name.ends_with(d.suffix); });
  SLUICE_CHECK(found != std::end(kDistributions));
  return *found;
}

uint64_t KeyOf(const std::string& name, uint64_t seed, Stream stream) {
  const std::array<std::byte, 32> hash = Sha256(std::as_bytes(std::span(name)));
  uint64_t position = 0;
  for (int i = 0; i < 8; ++i)
    position |= static_cast<uint64_t>(hash[static_cast<size_t>(i)]) << (8 * i);
  return RandomBits({.seed = seed, .position = position, .stream = stream});
}

// Number `index` of the sequence SplitMix64 that starts at `key` (Steele, Lea and Flood, "Fast
// splittable pseudorandom number generators", 2014). Philox would take ten times as long, and a
// large model has 2 x 10^10 values.
uint64_t SplitMix(uint64_t key, int64_t index) {
  uint64_t z = key + (static_cast<uint64_t>(index) + 1) * 0x9E3779B97F4A7C15;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

// Sum of the 8 bytes.
int32_t ByteSum(uint64_t bits) {
  constexpr uint64_t kEven = 0x00FF00FF00FF00FF;
  const uint64_t pairs = (bits & kEven) + ((bits >> 8) & kEven);
  return static_cast<int32_t>((pairs * 0x0001000100010001) >> 48);
}

}  // namespace

RandomTensor::RandomTensor(const TensorSpec& spec,
                           const TensorSpec& codes,
                           const RandomSource& source)
    : dtype_(spec.dtype),
      encoding_(spec.encoding),
      is_fp4_(codes.encoding == Encoding::kFp4Codes),
      n_rows_(codes.shape.size() == 1 ? 1 : codes.shape[0]),
      n_columns_(codes.shape.back() * (is_fp4_ ? 2 : 1)),
      key_(KeyOf(codes.name, source.seed, kValues)),
      row_key_(KeyOf(codes.name, source.seed, kRows)) {
  const Distribution& distribution = DistributionOf(codes.name);
  is_table_ = distribution.kind == Distribution::kTable;
  is_uniform_ = distribution.kind == Distribution::kUniform;
  const bool is_tiled = codes.encoding == Encoding::kFp8Codes && !is_table_;
  n_slab_rows_ = is_tiled ? kGroup : 1;
  n_slabs_ = (n_rows_ + n_slab_rows_ - 1) / n_slab_rows_;
  row_bytes_ = spec.shape.back() * SizeOf(spec.dtype);

  double std = distribution.scale;
  if (distribution.kind == Distribution::kQueries) std = source.query_gain;
  if (distribution.kind == Distribution::kMatrix || distribution.kind == Distribution::kQueries) {
    std /= std::sqrt(static_cast<double>(n_columns_));
  }
  if (codes.encoding == Encoding::kPlain) {
    MakePlainTable(distribution.mean, std);
  } else {
    SLUICE_CHECK(n_columns_ % kGroup == 0 && distribution.mean == 0);
    MakeExponents(std);
    if (spec.encoding != Encoding::kScales) MakeCodes(std);
  }
}

void RandomTensor::MakePlainTable(double mean, double std) {
  for (int32_t draw = 0; draw < kNumDraws; ++draw) {
    const auto value = static_cast<float>(mean + std * ((draw - kMeanDraw) / kDrawStd));
    values_.push_back(value);
    bf16s_.push_back(ToBf16(value).bits);
  }
}

// Scales as AQ8 and QDQ4m choose them (spec model.md §3.0): the smallest power of two with which
// the largest value of a group fits the codes.
void RandomTensor::MakeExponents(double std) {
  const float reciprocal = is_fp4_ ? 1.0F / 6 : 1.0F / 448;
  for (int32_t peak = 0; peak <= kMeanDraw; ++peak) {
    const auto value = static_cast<float>(std * (std::max(peak, kLeastPeak) / kDrawStd));
    exponents_.push_back(Pow2CeilExponent(value * reciprocal));
  }
  exponent_min_ = exponents_.front();
}

void RandomTensor::MakeCodes(double std) {
  const auto n_exponents = static_cast<size_t>(exponents_.back() - exponent_min_ + 1);
  codes_.resize(n_exponents * kNumDraws);
  for (size_t i = 0; i < n_exponents; ++i) {
    uint8_t* middle = codes_.data() + i * kNumDraws + kMeanDraw;
    for (int32_t distance = 0; distance <= kMeanDraw; ++distance) {
      const auto value = static_cast<float>(std * (distance / kDrawStd));
      const float scaled = std::ldexp(value, -(exponent_min_ + static_cast<int32_t>(i)));
      const uint8_t code = is_fp4_ ? ToE2m1(scaled) : ToE4m3(scaled);
      middle[-distance] = code | (is_fp4_ ? 0x08 : 0x80);  // the bit of the sign
      middle[distance] = code;
    }
  }
}

uint64_t RandomTensor::BitsAt(int64_t index) const { return SplitMix(key_, index); }

int32_t RandomTensor::DrawAt(int64_t index) const { return ByteSum(BitsAt(index)); }

int32_t RandomTensor::RowExponent(int64_t row) const {
  return is_table_ ? static_cast<int32_t>(SplitMix(row_key_, row) % 5) - 2 : 0;
}

int64_t RandomTensor::SlabBytes(int64_t begin, int64_t end) const {
  // The last slab of a matrix may have fewer rows; scales have one row for it all the same.
  if (encoding_ == Encoding::kScales) return (end - begin) * row_bytes_;
  return (std::min(end * n_slab_rows_, n_rows_) - begin * n_slab_rows_) * row_bytes_;
}

void RandomTensor::Fill(int64_t begin, int64_t end, std::byte* out) const {
  SLUICE_CHECK(begin >= 0 && end <= n_slabs_);
  for (int64_t slab = begin; slab < end; ++slab) {
    std::byte* at = out + SlabBytes(begin, slab);
    switch (encoding_) {
      case Encoding::kPlain:
        FillPlain(slab, at);
        break;
      case Encoding::kFp8Codes:
        FillFp8(slab, at);
        break;
      case Encoding::kFp4Codes:
        FillFp4(slab, at);
        break;
      case Encoding::kScales:
        FillScales(slab, at);
        break;
    }
  }
}

void RandomTensor::FillPlain(int64_t slab, std::byte* out) const {
  const int64_t first = slab * n_columns_;
  for (int64_t i = 0; i < n_columns_; ++i) {
    if (is_uniform_) {
      const auto uniform = static_cast<double>(BitsAt(first + i) >> 11) * 0x1p-53;
      const auto value = static_cast<float>(0.5 + uniform);
      std::memcpy(out + i * int64_t{sizeof(value)}, &value, sizeof(value));
      continue;
    }
    const auto draw = static_cast<size_t>(DrawAt(first + i));
    if (dtype_ == DType::kBf16) {
      std::memcpy(out + i * int64_t{sizeof(uint16_t)}, &bf16s_[draw], sizeof(uint16_t));
    } else {
      std::memcpy(out + i * int64_t{sizeof(float)}, &values_[draw], sizeof(float));
    }
  }
}

int32_t RandomTensor::PeakOf(int64_t row, int64_t n_rows, int64_t column, uint16_t* draws) const {
  int32_t draw_min = kMeanDraw, draw_max = kMeanDraw;
  for (int64_t r = 0; r < n_rows; ++r) {
    const int64_t first = (row + r) * n_columns_ + column;
    for (int64_t i = 0; i < kGroup; ++i) {
      const int32_t draw = DrawAt(first + i);
      draws[r * kGroup + i] = static_cast<uint16_t>(draw);
      draw_min = std::min(draw_min, draw);
      draw_max = std::max(draw_max, draw);
    }
  }
  return std::max(draw_max - kMeanDraw, kMeanDraw - draw_min);
}

void RandomTensor::FillFp8(int64_t slab, std::byte* out) const {
  const int64_t row = slab * n_slab_rows_;
  const int64_t n_rows = std::min(n_slab_rows_, n_rows_ - row);
  uint16_t draws[kGroup * kGroup];
  for (int64_t column = 0; column < n_columns_; column += kGroup) {
    const int32_t exponent = exponents_[static_cast<size_t>(PeakOf(row, n_rows, column, draws))];
    const uint8_t* codes = codes_.data() + int64_t{exponent - exponent_min_} * kNumDraws;
    for (int64_t r = 0; r < n_rows; ++r) {
      std::byte* at = out + r * row_bytes_ + column;
      for (int64_t i = 0; i < kGroup; ++i) at[i] = std::byte{codes[draws[r * kGroup + i]]};
    }
  }
}

void RandomTensor::FillFp4(int64_t row, std::byte* out) const {
  uint16_t draws[kGroup];
  for (int64_t column = 0; column < n_columns_; column += kGroup) {
    const int32_t exponent = exponents_[static_cast<size_t>(PeakOf(row, 1, column, draws))];
    const uint8_t* codes = codes_.data() + int64_t{exponent - exponent_min_} * kNumDraws;
    std::byte* at = out + column / 2;
    for (int64_t i = 0; i < kGroup; i += 2) {
      at[i / 2] = static_cast<std::byte>(codes[draws[i]] | codes[draws[i + 1]] << 4);
    }
  }
}

void RandomTensor::FillScales(int64_t slab, std::byte* out) const {
  const int64_t row = slab * n_slab_rows_;
  const int64_t n_rows = std::min(n_slab_rows_, n_rows_ - row);
  uint16_t draws[kGroup * kGroup];
  for (int64_t column = 0; column < n_columns_; column += kGroup) {
    const int32_t exponent = exponents_[static_cast<size_t>(PeakOf(row, n_rows, column, draws))];
    out[column / kGroup] = static_cast<std::byte>(exponent + RowExponent(row) + 127);
  }
}

}  // namespace sluice::model::deepseek_v41
