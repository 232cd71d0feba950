#include "model/deepseek_v41/random_tensor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "model/deepseek_v41/presets.h"
#include "tensor/formats.h"
#include "tensor/matrix.h"

namespace sluice::model::deepseek_v41 {
namespace {

using Bytes = std::vector<std::byte>;

constexpr RandomSource kSource = {.seed = 7, .query_gain = 1.3};

Bytes Make(const TensorSpec& spec, const TensorSpec& codes, const RandomSource& source = kSource) {
  const RandomTensor tensor(spec, codes, source);
  Bytes bytes(static_cast<size_t>(spec.n_bytes()));
  EXPECT_EQ(tensor.SlabBytes(0, tensor.n_slabs()), spec.n_bytes()) << spec.name;
  tensor.Fill(0, tensor.n_slabs(), bytes.data());
  return bytes;
}

// Codes and their scales, as ListTensors names them.
struct Pair {
  TensorSpec codes, scales;
};
Pair Fp8(const std::string& name, int64_t n_out, int64_t n_in) {
  return {{.name = name + ".weight",
           .dtype = DType::kF8E4m3,
           .shape = {n_out, n_in},
           .encoding = Encoding::kFp8Codes},
          {.name = name + ".scale",
           .dtype = DType::kF8E8m0,
           .shape = {(n_out + 31) / 32, n_in / 32},
           .encoding = Encoding::kScales}};
}
Pair Fp4(const std::string& name, int64_t n_out, int64_t n_in) {
  return {{.name = name + ".weight",
           .dtype = DType::kI8,
           .shape = {n_out, n_in / 2},
           .encoding = Encoding::kFp4Codes},
          {.name = name + ".scale",
           .dtype = DType::kF8E8m0,
           .shape = {n_out, n_in / 32},
           .encoding = Encoding::kScales}};
}
TensorSpec Plain(const std::string& name, DType dtype, Shape shape) {
  return {.name = name, .dtype = dtype, .shape = std::move(shape)};
}

struct Moments {
  double mean = 0, std = 0, beyond_3 = 0;  // the last: part of values beyond 3 std
};
Moments MomentsOf(const std::vector<float>& values) {
  Moments m;
  const auto n = static_cast<double>(values.size());
  for (const float v : values) m.mean += v / n;
  for (const float v : values) m.std += (v - m.mean) * (v - m.mean) / n;
  m.std = std::sqrt(m.std);
  for (const float v : values) m.beyond_3 += std::abs(v - m.mean) > 3 * m.std ? 1 / n : 0;
  return m;
}

std::vector<float> Bf16Values(const Bytes& bytes) {
  std::vector<float> values;
  for (size_t i = 0; i < bytes.size(); i += 2) {
    Bf16 value;
    std::memcpy(&value, &bytes[i], 2);
    values.push_back(ToFloat(value));
  }
  return values;
}

// Of the weight that both tensors are.
std::vector<float> Decode(const Pair& pair, const Matrix& shape) {
  const Bytes codes = Make(pair.codes, pair.codes);
  const Bytes scales = Make(pair.scales, pair.codes);
  Matrix matrix = shape;
  matrix.data = codes.data();
  matrix.scales = reinterpret_cast<const uint8_t*>(scales.data());
  std::vector<float> values(static_cast<size_t>(matrix.n_out * matrix.n_in));
  for (int64_t row = 0; row < matrix.n_out; ++row) {
    DecodeMatrixRow(matrix, row, values.data() + row * matrix.n_in);
  }
  return values;
}

TEST(RandomTensor, AnyPartOfItHasTheBytesOfTheWhole) {
  for (const auto& [spec, codes] :
       {std::pair(Fp8("attn.wo_b", 100, 96).codes, Fp8("attn.wo_b", 100, 96).codes),
        std::pair(Fp8("attn.wo_b", 100, 96).scales, Fp8("attn.wo_b", 100, 96).codes),
        std::pair(Fp4("ffn.experts.3.w1", 9, 64).codes, Fp4("ffn.experts.3.w1", 9, 64).codes),
        std::pair(Plain("embed.weight", DType::kBf16, {7, 33}),
                  Plain("embed.weight", DType::kBf16, {7, 33})),
        std::pair(Plain("layers.0.hc_attn_fn", DType::kF32, {5, 20}),
                  Plain("layers.0.hc_attn_fn", DType::kF32, {5, 20}))}) {
    const Bytes whole = Make(spec, codes);
    const RandomTensor tensor(spec, codes, kSource);
    Bytes parts(whole.size());
    for (int64_t slab = tensor.n_slabs() - 1; slab >= 0; --slab) {
      tensor.Fill(slab, slab + 1, parts.data() + tensor.SlabBytes(0, slab));
    }
    EXPECT_EQ(parts, whole) << spec.name;
  }
}

TEST(RandomTensor, SeedAndNameDecideTheBytes) {
  const TensorSpec spec = Plain("layers.0.attn_norm.weight", DType::kBf16, {64});
  const TensorSpec other = Plain("layers.1.attn_norm.weight", DType::kBf16, {64});
  EXPECT_EQ(Make(spec, spec), Make(spec, spec));
  EXPECT_NE(Make(spec, spec), Make(other, other));
  EXPECT_NE(Make(spec, spec), Make(spec, spec, {.seed = 8, .query_gain = 1.3}));
}

// Files made before must be made again: a change here is a change of every random model.
TEST(RandomTensor, TheFirstValuesAreKnown) {
  const Bytes bytes = Make(Plain("embed.weight", DType::kBf16, {1, 4}),
                           Plain("embed.weight", DType::kBf16, {1, 4}));
  std::vector<uint16_t> bits(4);
  std::memcpy(bits.data(), bytes.data(), bytes.size());
  EXPECT_EQ(bits, (std::vector<uint16_t>{15886, 16262, 16234, 15792}));
}

TEST(RandomTensor, ValuesAreNormalAroundTheirMean) {
  const TensorSpec embed = Plain("embed.weight", DType::kBf16, {512, 256});
  const Moments unit = MomentsOf(Bf16Values(Make(embed, embed)));
  EXPECT_NEAR(unit.mean, 0, 0.01);
  EXPECT_NEAR(unit.std, 1, 0.01);
  // 0.0027 of a normal distribution; a sum of 8 has lighter tails.
  EXPECT_NEAR(unit.beyond_3, 0.0022, 0.0006);
  const TensorSpec norm = Plain("norm.weight", DType::kBf16, {65536});
  const Moments weights = MomentsOf(Bf16Values(Make(norm, norm)));
  EXPECT_NEAR(weights.mean, 1, 0.005);
  EXPECT_NEAR(weights.std, 0.2, 0.005);
}

TEST(RandomTensor, MatricesKeepTheSizeOfWhatGoesThroughThem) {
  const Moments fp8 = MomentsOf(Decode(Fp8("attn.wq_b", 256, 320),
                                       {.format = MatrixFormat::kFp8, .n_out = 256, .n_in = 320}));
  EXPECT_NEAR(fp8.std * std::sqrt(320), kSource.query_gain, 0.02);
  const Moments fp4 = MomentsOf(Decode(Fp4("ffn.experts.0.w1", 256, 320),
                                       {.format = MatrixFormat::kFp4, .n_out = 256, .n_in = 320}));
  EXPECT_NEAR(fp4.mean, 0, 0.01);
  EXPECT_NEAR(fp4.std * std::sqrt(320), 3, 0.06);
}

TEST(RandomTensor, ScalesFitTheirGroups) {
  const Pair pair = Fp8("attn.wkv", 70, 96);
  const Bytes codes = Make(pair.codes, pair.codes);
  const Bytes scales = Make(pair.scales, pair.codes);
  for (int64_t tile = 0; tile < 9; ++tile) {
    const int64_t row = tile / 3 * 32, column = tile % 3 * 32;
    float peak = 0;
    for (int64_t i = row; i < std::min<int64_t>(row + 32, 70); ++i) {
      for (int64_t j = column; j < column + 32; ++j) {
        const auto code = static_cast<uint8_t>(codes[static_cast<size_t>(i * 96 + j)]);
        peak = std::max(peak, std::abs(FromE4m3(code)));
      }
    }
    // One power of two less and the largest would not fit.
    EXPECT_GE(peak, 224) << tile;
    EXPECT_LE(peak, 448) << tile;
    // Deviation 1/sqrt(96), of which the largest is three or four: 2^-11 or 2^-10.
    EXPECT_NEAR(static_cast<int>(scales[static_cast<size_t>(tile)]), 127 - 10, 1) << tile;
  }
}

TEST(RandomTensor, RowsOfATableDifferInSize) {
  TensorSpec codes = Fp8("layers.1.engram.embed", 500, 64).codes;
  TensorSpec scales = Fp8("layers.1.engram.embed", 500, 64).scales;
  scales.shape = {500, 2};
  const Bytes bytes = Make(scales, codes);
  int least = 255, most = 0;
  for (size_t row = 0; row < 500; ++row) {
    const auto a = static_cast<int>(bytes[2 * row]), b = static_cast<int>(bytes[2 * row + 1]);
    EXPECT_NEAR(a, b, 2) << "both groups of a row are as large";
    least = std::min(least, a);
    most = std::max(most, a);
  }
  EXPECT_GE(most - least, 4);
  EXPECT_LE(most - least, 6);
}

TEST(RandomTensor, EveryTensorOfAPresetHasADistribution) {
  const std::vector<TensorSpec> specs = ListTensors(FindPreset("tiny-a")->config);
  for (size_t i = 0; i < specs.size(); ++i) {
    const TensorSpec& codes = specs[specs[i].encoding == Encoding::kScales ? i - 1 : i];
    const Bytes bytes = Make(specs[i], codes);
    EXPECT_NE(std::count(bytes.begin(), bytes.end(), std::byte{0}), std::ssize(bytes))
        << specs[i].name;
  }
  const TensorSpec unknown = Plain("other.weight", DType::kBf16, {4});
  EXPECT_DEATH(RandomTensor(unknown, unknown, kSource), "");
}

}  // namespace
}  // namespace sluice::model::deepseek_v41
