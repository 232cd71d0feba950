#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/harness/samples_test_impl.h"
#include "kernels/linear/op.h"
#include "kernels/moe_ffn/op.h"
#include "kernels/quantize/op.h"
#include "tensor/buffer.h"

namespace sluice::ops::moe_ffn {
namespace {

using harness::kBothArithmetics;
using harness::Samples;
using harness::StoredMatrix;

constexpr int32_t kColumns = 64;
constexpr int32_t kInner = 96;
constexpr int32_t kExperts = 5;
constexpr int32_t kChosen = 3;

// Experts that own their weights; w2 is small so that outputs stay near 1.
struct Layer {
  std::vector<StoredMatrix> stored;
  std::vector<Expert> experts;
  Expert shared;
};

Expert MakeExpert(Samples& samples, MatrixFormat format, std::vector<StoredMatrix>& stored) {
  const auto make = [&](int64_t n_out, int64_t n_in) {
    stored.push_back(samples.Weight(format, n_out, n_in));
    return stored.back().matrix;
  };
  Expert expert;
  expert.w1 = make(kInner, kColumns);
  expert.w3 = make(kInner, kColumns);
  expert.w2 = make(kColumns, kInner);
  return expert;
}

Layer MakeLayer(MatrixFormat format, MatrixFormat shared_format) {
  Samples samples(9);
  Layer layer;
  for (int32_t i = 0; i < kExperts; ++i) {
    layer.experts.push_back(MakeExpert(samples, format, layer.stored));
  }
  layer.shared = MakeExpert(samples, shared_format, layer.stored);
  return layer;
}

// Expert 3 is chosen by no row.
struct Rows {
  std::vector<Bf16> x;
  std::vector<int32_t> chosen;
  std::vector<float> weights;
  int64_t n = 0;
};

Rows MakeRows(int64_t n) {
  constexpr int32_t kChoices[4][kChosen] = {{0, 1, 2}, {1, 2, 4}, {0, 2, 4}, {0, 1, 4}};
  Samples samples(10);
  Rows rows{.x = samples.Bf16s(n * kColumns), .n = n};
  for (int64_t row = 0; row < n; ++row) {
    rows.chosen.insert(rows.chosen.end(), kChoices[row % 4], kChoices[row % 4] + kChosen);
    for (int i = 0; i < kChosen; ++i) rows.weights.push_back(0.2F + samples.Uniform());
  }
  return rows;
}

struct Outputs {
  std::vector<Bf16> out;         // [n, kColumns]
  std::vector<Bf16> expert_out;  // [n, kChosen, kColumns]
  std::vector<Bf16> shared_out;  // [n, kColumns]
};

Outputs RunRows(
    const Layer& layer, const Rows& rows, int64_t first, int64_t n, float limit, Stream& stream) {
  const auto n_values = static_cast<size_t>(n * kColumns);
  Outputs got{.out = std::vector<Bf16>(n_values),
              .expert_out = std::vector<Bf16>(n_values * kChosen),
              .shared_out = std::vector<Bf16>(n_values)};
  const Buffer scratch(ScratchBytes(n, kColumns, kInner, kChosen, kExperts));
  moe_ffn::Run({.x = rows.x.data() + first * kColumns,
                .n_rows = n,
                .n_columns = kColumns,
                .n_inner = kInner,
                .chosen = rows.chosen.data() + first * kChosen,
                .weights = rows.weights.data() + first * kChosen,
                .n_chosen = kChosen,
                .experts = layer.experts,
                .shared = layer.shared,
                .limit = limit,
                .out = got.out.data(),
                .expert_out = got.expert_out.data(),
                .shared_out = got.shared_out.data(),
                .scratch = {scratch.data(), static_cast<size_t>(scratch.size())}},
               stream);
  return got;
}

// What implementers got wrong (spec model.md §7.3, 17 and 18, and §3.5).
enum class Mistake {
  kNone,
  kWeightAfterDown,     // the routing weight multiplies the expert's output
  kNoBf16AfterGateUp,   // gate and up keep their float sums
  kNoBf16AfterDown,     // the expert's output keeps its float sum
  kRoutedSumRounded,    // to bf16, before the shared expert is added
  kSharedFirst,         // the sum starts with the shared expert
  kDescending,          // routed outputs are added from the last to the first
  kGateClampedBelow,    // the gate has a lower limit, too
  kUpNotClampedBelow,   // the clamp of up has none
  kNotQuantizedInside,  // h goes into w2 as bf16
};

// The formula in the arithmetic of the goldens, a row and an expert at a time.
class Formula {
 public:
  Formula(float limit, Mistake mistake) : limit_(limit), mistake_(mistake) {}

  std::vector<float> ExpertOut(const Expert& expert, const Bf16* x, const float* weight) const {
    const std::vector<float> input = Quantized({x, x + kColumns});
    std::vector<float> gate = Multiply(expert.w1, input, Mistake::kNoBf16AfterGateUp);
    const std::vector<float> up = Multiply(expert.w3, input, Mistake::kNoBf16AfterGateUp);
    std::vector<Bf16> h(kInner);
    for (size_t i = 0; i < h.size(); ++i) {
      float value = Activation(gate[i], up[i]);
      if (weight != nullptr && mistake_ != Mistake::kWeightAfterDown) value = *weight * value;
      h[i] = ToBf16(value);
    }
    std::vector<float> inner = Quantized(h);
    if (mistake_ == Mistake::kNotQuantizedInside) {
      for (size_t i = 0; i < h.size(); ++i) inner[i] = ToFloat(h[i]);
    }
    std::vector<float> out = Multiply(expert.w2, inner, Mistake::kNoBf16AfterDown);
    if (weight != nullptr && mistake_ == Mistake::kWeightAfterDown) {
      for (float& value : out) value = RoundToBf16(*weight * value);
    }
    return out;
  }

  std::vector<Bf16> Row(const Layer& layer, const Rows& rows, int64_t row) const {
    const Bf16* x = rows.x.data() + row * kColumns;
    const std::vector<float> shared = ExpertOut(layer.shared, x, nullptr);
    std::vector<float> total(kColumns, 0.0F);
    if (mistake_ == Mistake::kSharedFirst) total = shared;
    for (int32_t i = 0; i < kChosen; ++i) {
      const int32_t which = mistake_ == Mistake::kDescending ? kChosen - 1 - i : i;
      const auto place = static_cast<size_t>(row * kChosen + which);
      const Expert& expert = layer.experts[static_cast<size_t>(rows.chosen[place])];
      const std::vector<float> out = ExpertOut(expert, x, &rows.weights[place]);
      for (size_t column = 0; column < total.size(); ++column) total[column] += out[column];
    }
    std::vector<Bf16> result(kColumns);
    for (size_t column = 0; column < total.size(); ++column) {
      float sum = total[column];
      if (mistake_ == Mistake::kRoutedSumRounded) sum = RoundToBf16(sum);
      result[column] = ToBf16(mistake_ == Mistake::kSharedFirst ? sum : sum + shared[column]);
    }
    return result;
  }

 private:
  static std::vector<float> Quantized(const std::vector<Bf16>& x) {
    const auto n = static_cast<int32_t>(x.size());
    std::vector<uint8_t> codes(x.size());
    std::vector<uint8_t> scales(x.size() / 32);
    std::vector<float> values(x.size());
    QuantizeRow(GroupFormat::kFp8, x.data(), n, codes.data(), scales.data());
    DequantizeRow(GroupFormat::kFp8, codes.data(), scales.data(), n, values.data());
    return values;
  }

  std::vector<float> Multiply(const Matrix& weight,
                              const std::vector<float>& x,
                              Mistake unrounded) const {
    std::vector<float> out;
    std::vector<float> weights(x.size());
    for (int64_t o = 0; o < weight.n_out; ++o) {
      DecodeMatrixRow(weight, o, weights.data());
      double sum = 0;
      for (size_t i = 0; i < x.size(); ++i) sum += double{x[i]} * double{weights[i]};
      const auto rounded = static_cast<float>(sum);
      out.push_back(mistake_ == unrounded ? rounded : RoundToBf16(rounded));
    }
    return out;
  }

  float Activation(float gate, float up) const {
    if (limit_ > 0) {
      gate = std::min(gate, limit_);
      if (mistake_ == Mistake::kGateClampedBelow) gate = std::max(gate, -limit_);
      up = std::min(up, limit_);
      if (mistake_ != Mistake::kUpNotClampedBelow) up = std::max(up, -limit_);
    }
    const auto silu = static_cast<float>(double{gate} / (1 + std::exp(-double{gate})));
    return silu * up;
  }

  const float limit_;
  const Mistake mistake_;
};

constexpr MatrixFormat kRoutedFormat = MatrixFormat::kFp4;
constexpr MatrixFormat kSharedFormat = MatrixFormat::kFp8;
constexpr float kLimit = 6;

std::vector<Bf16> FormulaOf(const Layer& layer, const Rows& rows, float limit, Mistake mistake) {
  std::vector<Bf16> out;
  for (int64_t row = 0; row < rows.n; ++row) {
    const std::vector<Bf16> one = Formula(limit, mistake).Row(layer, rows, row);
    out.insert(out.end(), one.begin(), one.end());
  }
  return out;
}

std::vector<Bf16> RunExact(const Layer& layer, const Rows& rows, float limit) {
  ThreadTeam team(2);
  Stream stream{.team = team, .arithmetic = Arithmetic::kExact};
  return RunRows(layer, rows, 0, rows.n, limit, stream).out;
}

TEST(MoeFfn, ExactEqualsTheFormula) {
  const Layer layer = MakeLayer(kRoutedFormat, kSharedFormat);
  const Rows rows = MakeRows(8);
  for (const float limit : {0.0F, kLimit}) {
    EXPECT_EQ(RunExact(layer, rows, limit), FormulaOf(layer, rows, limit, Mistake::kNone));
  }
}

TEST(MoeFfn, ALimitOf0IsNoClamp) {
  const Layer layer = MakeLayer(kRoutedFormat, kSharedFormat);
  const Rows rows = MakeRows(8);
  EXPECT_NE(RunExact(layer, rows, 0), RunExact(layer, rows, kLimit));
  EXPECT_EQ(RunExact(layer, rows, 0), RunExact(layer, rows, 1e6F));
}

// Each of these fails if the operator makes the mistake, because then it equals the formula
// that makes it.
class MoeFfnMistakes : public testing::TestWithParam<std::pair<const char*, Mistake>> {};

INSTANTIATE_TEST_SUITE_P(
    None,
    MoeFfnMistakes,
    testing::Values(std::pair("TheWeightComesBeforeTheDownProjection", Mistake::kWeightAfterDown),
                    std::pair("GateAndUpAreRoundedToBf16", Mistake::kNoBf16AfterGateUp),
                    std::pair("AnExpertsOutputIsRoundedToBf16", Mistake::kNoBf16AfterDown),
                    std::pair("TheRoutedSumIsNotRounded", Mistake::kRoutedSumRounded),
                    std::pair("TheGateHasNoLowerLimit", Mistake::kGateClampedBelow),
                    std::pair("UpIsClampedOnBothSides", Mistake::kUpNotClampedBelow),
                    std::pair("TheInnerActivationIsQuantized", Mistake::kNotQuantizedInside)),
    [](const auto& test) { return test.param.first; });

TEST_P(MoeFfnMistakes, IsNotMade) {
  const Layer layer = MakeLayer(kRoutedFormat, kSharedFormat);
  const Rows rows = MakeRows(64);
  EXPECT_NE(RunExact(layer, rows, kLimit), FormulaOf(layer, rows, kLimit, GetParam().second));
}

// Sums of bf16 values of one size are exact in any order. Here expert 2 takes back what expert 1
// gives, 2^18 times the rest, so that all bits below theirs are lost that were there before.
TEST(MoeFfn, RoutedOutputsAreAddedAscendingAndTheSharedOneLast) {
  Layer layer = MakeLayer(kRoutedFormat, kSharedFormat);
  for (size_t i = 3; i < 6; ++i) {  // w1, w3, w2 of expert 1
    layer.stored[i + 3].data = layer.stored[i].data;
    layer.stored[i + 3].scales = layer.stored[i].scales;
  }
  for (uint8_t& codes : layer.stored[8].data) codes ^= 0x88;
  for (const size_t i : {5, 8}) {
    for (uint8_t& scale : layer.stored[i].scales) scale = static_cast<uint8_t>(scale + 18);
  }
  Rows rows = MakeRows(1);
  rows.weights = {1, 1, 1};
  const std::vector<Bf16> got = RunExact(layer, rows, kLimit);
  EXPECT_EQ(got, FormulaOf(layer, rows, kLimit, Mistake::kNone));
  EXPECT_NE(got, FormulaOf(layer, rows, kLimit, Mistake::kSharedFirst));
  EXPECT_NE(got, FormulaOf(layer, rows, kLimit, Mistake::kDescending));
}

TEST(MoeFfn, Float32IsCloseToTheFormula) {
  const Layer layer = MakeLayer(kRoutedFormat, kSharedFormat);
  const Rows rows = MakeRows(8);
  const std::vector<Bf16> want = FormulaOf(layer, rows, kLimit, Mistake::kNone);
  ThreadTeam team(2);
  Stream stream{.team = team, .arithmetic = Arithmetic::kFloat32};
  const std::vector<Bf16> got = RunRows(layer, rows, 0, rows.n, kLimit, stream).out;
  float largest = 0;
  for (const Bf16 value : want) largest = std::max(largest, std::fabs(ToFloat(value)));
  // A gate, an up or an output on the edge of two bf16 values may go the other way and take an E4M3
  // code along: 2^-4 of one of the kInner inputs of w2.
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(ToFloat(got[i]), ToFloat(want[i]), largest * 0x1p-6F) << i;
  }
}

TEST(MoeFfn, WhatLiesInsideIsHandedOut) {
  const Layer layer = MakeLayer(kRoutedFormat, kSharedFormat);
  const Rows rows = MakeRows(5);
  ThreadTeam team(2);
  Stream stream{.team = team, .arithmetic = Arithmetic::kExact};
  const Outputs got = RunRows(layer, rows, 0, rows.n, kLimit, stream);
  const Formula formula(kLimit, Mistake::kNone);
  for (size_t row = 0; row < 5; ++row) {
    const Bf16* x = rows.x.data() + row * kColumns;
    const std::vector<float> shared = formula.ExpertOut(layer.shared, x, nullptr);
    for (size_t i = 0; i < kChosen; ++i) {
      const size_t place = row * kChosen + i;
      const std::vector<float> want = formula.ExpertOut(
          layer.experts[static_cast<size_t>(rows.chosen[place])], x, &rows.weights[place]);
      for (size_t column = 0; column < kColumns; ++column) {
        ASSERT_EQ(ToFloat(got.expert_out[place * kColumns + column]), want[column]);
        ASSERT_EQ(ToFloat(got.shared_out[row * kColumns + column]), shared[column]);
      }
    }
  }
}

// The matrices of an expert, packed.
Expert PackedOf(const Expert& expert, std::vector<StoredMatrix>& stored) {
  const auto pack = [&](const Matrix& matrix) {
    stored.push_back(harness::PackedFrom(matrix));
    return stored.back().matrix;
  };
  return {.w1 = pack(expert.w1), .w2 = pack(expert.w2), .w3 = pack(expert.w3)};
}

TEST(MoeFfn, PackedExpertsGiveTheSameBits) {
  const Layer layer = MakeLayer(kRoutedFormat, kSharedFormat);
  Layer packed;
  for (const Expert& expert : layer.experts) {
    packed.experts.push_back(PackedOf(expert, packed.stored));
  }
  packed.shared = PackedOf(layer.shared, packed.stored);
  ThreadTeam team(2);
  for (const int64_t n_rows : {1, 2, 7, 40}) {
    const Rows rows = MakeRows(n_rows);
    Stream ref{.team = team, .isas = harness::UpTo(Isa::kRef)};
    const Outputs want = RunRows(layer, rows, 0, n_rows, kLimit, ref);
    for (const Isa isa : linear::Isas()) {
      if (!IsasOfMachine().Has(isa)) continue;
      Stream stream{.team = team, .isas = harness::UpTo(isa)};
      EXPECT_EQ(linear::ChosenIsa({.weight = packed.experts[0].w1}, stream), isa);
      const Outputs got = RunRows(packed, rows, 0, n_rows, kLimit, stream);
      EXPECT_EQ(got.out, want.out) << NameOf(isa) << ' ' << n_rows;
      EXPECT_EQ(got.expert_out, want.expert_out) << NameOf(isa) << ' ' << n_rows;
      EXPECT_EQ(got.shared_out, want.shared_out) << NameOf(isa) << ' ' << n_rows;
    }
  }
}

TEST(MoeFfn, RowsAreIndependentInAnyWeightFormat) {
  const Rows rows = MakeRows(7);
  for (const Arithmetic arithmetic : kBothArithmetics) {
    for (const MatrixFormat format : {MatrixFormat::kFp4, MatrixFormat::kBf16}) {
      const Layer layer = MakeLayer(format, kSharedFormat);
      harness::ExpectRowsAreIndependent(
          rows.n, arithmetic, [&](int64_t first, int64_t n, Stream& stream) {
            return harness::BytesOf(RunRows(layer, rows, first, n, kLimit, stream).out);
          });
    }
  }
}

}  // namespace
}  // namespace sluice::ops::moe_ffn
