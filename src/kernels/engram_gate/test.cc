#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/engram_gate/op.h"
#include "kernels/harness/samples_test_impl.h"

namespace sluice::ops::engram_gate {
namespace {

struct Operands {
  int64_t n_rows = 1;
  int32_t n_streams = 1;
  int32_t n_columns = 0;
  std::vector<Bf16> streams;   // [n_rows, n_streams, n_columns]
  std::vector<Bf16> kv;        // [n_rows, n_streams + 1, n_columns]
  std::vector<Bf16> q_weight;  // [n_streams, n_columns]
  std::vector<Bf16> k_weight;
  std::vector<uint8_t> is_image;
  float eps = 1e-20F;
};

struct Written {
  std::vector<Bf16> streams;
  std::vector<float> gate;
};

Operands Random(int64_t n_rows, int32_t n_streams, int32_t n_columns) {
  harness::Samples samples(21);
  return {.n_rows = n_rows,
          .n_streams = n_streams,
          .n_columns = n_columns,
          .streams = samples.Bf16s(n_rows * n_streams * n_columns, 2),
          .kv = samples.Bf16s(n_rows * (n_streams + 1) * n_columns),
          .q_weight = samples.Bf16s(n_streams * n_columns, 0.3F, 1),
          .k_weight = samples.Bf16s(n_streams * n_columns, 0.3F, 1)};
}

// Rows [first, first + n).
Written Write(const Operands& in, int64_t first, int64_t n, Stream& stream) {
  const int64_t stream_values = int64_t{in.n_streams} * in.n_columns;
  const int64_t kv_values = stream_values + in.n_columns;
  Written out;
  out.streams.assign(in.streams.begin() + first * stream_values,
                     in.streams.begin() + (first + n) * stream_values);
  out.gate.resize(static_cast<size_t>(n * in.n_streams));
  Run({.streams = out.streams.data(),
       .kv = in.kv.data() + first * kv_values,
       .q_weight = in.q_weight.data(),
       .k_weight = in.k_weight.data(),
       .is_image = in.is_image.empty() ? nullptr : in.is_image.data() + first,
       .n_rows = n,
       .n_streams = in.n_streams,
       .n_columns = in.n_columns,
       .eps = in.eps,
       .gate = out.gate.data()},
      stream);
  return out;
}

Written Write(const Operands& in, Arithmetic arithmetic) {
  ThreadTeam team(1);
  Stream stream{.team = team, .arithmetic = arithmetic};
  return Write(in, 0, in.n_rows, stream);
}

// One stream of `n` columns with the given constant values.
Operands Constant(int32_t n, float x, float key, float value) {
  const auto size = static_cast<size_t>(n);
  Operands in{.n_columns = n,
              .streams = std::vector<Bf16>(size, ToBf16(x)),
              .kv = std::vector<Bf16>(size, ToBf16(key)),
              .q_weight = std::vector<Bf16>(size, ToBf16(1)),
              .k_weight = std::vector<Bf16>(size, ToBf16(1))};
  in.kv.insert(in.kv.end(), size, ToBf16(value));
  return in;
}

// Written down from the reference: two streams of 32 columns.
TEST(EngramGate, GivesTheGatesOfTheReference) {
  Operands in{.n_streams = 2, .n_columns = 32};
  for (int i = 0; i < 64; ++i) {
    in.streams.push_back(ToBf16(static_cast<float>(7 * i % 23 - 11) / 8));
    in.kv.push_back(ToBf16(static_cast<float>(5 * i % 19 - 9) / 16));
    in.q_weight.push_back(ToBf16(static_cast<float>(3 * i % 11 + 4) / 8));
    in.k_weight.push_back(ToBf16(static_cast<float>(2 * i % 7 + 1) / 4));
  }
  in.kv.insert(in.kv.end(), 32, ToBf16(0.5F));
  const Written exact = Write(in, Arithmetic::kExact);
  EXPECT_EQ(exact.gate[0], 0x1.822b6ep-1F);
  EXPECT_EQ(exact.gate[1], 0x1.6d18f2p-2F);
  const Written fast = Write(in, Arithmetic::kFloat32);
  for (size_t i = 0; i < 2; ++i) {
    // 32 sums, three products and two roots, at most a quarter of which a sigmoid lets through.
    EXPECT_NEAR(fast.gate[i], exact.gate[i], 40 * 0x1p-24);
  }
}

TEST(EngramGate, AddsTheGatedValueAndRoundsOnce) {
  const Operands in = Random(3, 4, 80);
  for (const Arithmetic arithmetic : harness::kBothArithmetics) {
    const Written out = Write(in, arithmetic);
    for (size_t i = 0; i < out.streams.size(); ++i) {
      const size_t row = i / 320;
      const float value = ToFloat(in.kv[row * 400 + 320 + i % 80]);
      const float gated = out.gate[i / 80] * value;
      EXPECT_EQ(out.streams[i], ToBf16(ToFloat(in.streams[i]) + gated)) << i;
    }
  }
}

TEST(EngramGate, TakesTheSquareRootWithItsSign) {
  // x and key constant: d = +-sqrt(n). With n = 16 the gate is sigmoid(+-2).
  for (const Arithmetic arithmetic : harness::kBothArithmetics) {
    EXPECT_NEAR(Write(Constant(16, 3, 0.5F, 1), arithmetic).gate[0], 1 / (1 + std::exp(-2.0)),
                1e-6);
    EXPECT_NEAR(Write(Constant(16, 3, -0.5F, 1), arithmetic).gate[0], 1 / (1 + std::exp(2.0)),
                1e-6);
  }
}

TEST(EngramGate, HasAFloorUnderTheRoot) {
  Operands in = Constant(16, 1, 1, 1);
  for (size_t i = 0; i < 16; i += 2) in.kv[i] = ToBf16(-1);  // d = 0
  for (const Arithmetic arithmetic : harness::kBothArithmetics) {
    EXPECT_NEAR(Write(in, arithmetic).gate[0], 1 / (1 + std::exp(-1e-3)), 1e-7);
  }
}

TEST(EngramGate, TheEpsIsTheOneOfTheNormNot1eMinus6) {
  for (const Arithmetic arithmetic : harness::kBothArithmetics) {
    const float gate = Write(Constant(16, 1e-5F, 1e-5F, 1), arithmetic).gate[0];
    EXPECT_NEAR(gate, 1 / (1 + std::exp(-2.0)), 1e-6);
  }
}

TEST(EngramGate, NormalisesEveryStreamByItself) {
  Operands in = Random(1, 2, 64);
  const Written before = Write(in, Arithmetic::kExact);
  for (size_t i = 64; i < 128; ++i) in.streams[i] = ToBf16(ToFloat(in.streams[i]) * 1024);
  const Written after = Write(in, Arithmetic::kExact);
  EXPECT_EQ(after.gate, before.gate);  // 2^10 goes through every step exactly
}

TEST(EngramGate, EveryStreamHasItsOwnKeyAndWeights) {
  Operands in = Random(1, 2, 64);
  const Written before = Write(in, Arithmetic::kExact);
  for (size_t i = 64; i < 128; ++i) in.kv[i] = ToBf16(-ToFloat(in.kv[i]));
  EXPECT_EQ(Write(in, Arithmetic::kExact).gate[0], before.gate[0]);
  EXPECT_NE(Write(in, Arithmetic::kExact).gate[1], before.gate[1]);
  for (size_t i = 0; i < 64; ++i) in.k_weight[i] = ToBf16(-ToFloat(in.k_weight[i]));
  EXPECT_NE(Write(in, Arithmetic::kExact).gate[0], before.gate[0]);
}

TEST(EngramGate, ImageRowsStayAsTheyAre) {
  Operands in = Random(3, 2, 32);
  in.is_image = {0, 1, 0};
  for (const Arithmetic arithmetic : harness::kBothArithmetics) {
    const Written out = Write(in, arithmetic);
    EXPECT_EQ(out.gate[2], 0);
    EXPECT_EQ(out.gate[3], 0);
    EXPECT_TRUE(
        std::equal(out.streams.begin() + 64, out.streams.begin() + 128, in.streams.begin() + 64));
    EXPECT_NE(out.gate[0], 0);
    EXPECT_FALSE(std::equal(out.streams.begin(), out.streams.begin() + 64, in.streams.begin()));
  }
}

TEST(EngramGate, Float32IsNearTheExactGate) {
  const Operands in = Random(20, 4, 5120);
  const Written exact = Write(in, Arithmetic::kExact);
  const Written fast = Write(in, Arithmetic::kFloat32);
  for (size_t i = 0; i < exact.gate.size(); ++i) {
    // The longest chain of a sum is 320 + 4 additions, whose errors add up like a random walk;
    // the sum of magnitudes is about sqrt(n) times the sum.
    EXPECT_NEAR(fast.gate[i], exact.gate[i], 324 * 0x1p-24);
  }
}

TEST(EngramGate, RowsAreIndependent) {
  Operands in = Random(6, 4, 40);
  in.is_image = {0, 0, 1, 0, 0, 0};
  for (const Arithmetic arithmetic : harness::kBothArithmetics) {
    harness::ExpectRowsAreIndependent(6, arithmetic, [&](int64_t first, int64_t n, Stream& stream) {
      const Written out = Write(in, first, n, stream);
      // Row by row, so that the bytes of a row stand together.
      std::vector<uint8_t> bytes;
      for (int64_t row = 0; row < n; ++row) {
        const std::vector<Bf16> streams(out.streams.begin() + row * 160,
                                        out.streams.begin() + (row + 1) * 160);
        const std::vector<float> gate(out.gate.begin() + row * 4, out.gate.begin() + (row + 1) * 4);
        harness::AppendBytes(streams, bytes);
        harness::AppendBytes(gate, bytes);
      }
      return bytes;
    });
  }
}

}  // namespace
}  // namespace sluice::ops::engram_gate
