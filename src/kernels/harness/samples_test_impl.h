// Test data and comparisons that the tests of operators share. A Samples belongs to one thread.

#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "tensor/block_format.h"
#include "tensor/formats.h"
#include "tensor/matrix.h"
#include "tensor/packed.h"
#include "tensor/stream.h"

namespace sluice::harness {

inline constexpr Arithmetic kBothArithmetics[] = {Arithmetic::kFloat32, Arithmetic::kExact};

// A weight that owns its bytes.
struct StoredMatrix {
  Matrix matrix;  // points into the vectors; moving keeps it valid, copying does not
  std::vector<uint8_t> data;
  std::vector<uint8_t> scales;

  StoredMatrix() = default;
  StoredMatrix(StoredMatrix&&) = default;
  StoredMatrix& operator=(StoredMatrix&&) = default;
};

// Pseudo-random values, the same in every run (splitmix64), so that a failure can be repeated.
class Samples {
 public:
  explicit Samples(uint64_t seed) : state_(seed) {}

  uint64_t Bits() {
    state_ += 0x9E3779B97F4A7C15;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }
  int32_t Below(int32_t n) { return static_cast<int32_t>(Bits() % static_cast<uint64_t>(n)); }
  float Uniform() { return static_cast<float>(Bits() >> 40) * 0x1p-24F; }
  // Bell-shaped, mean 0: four uniform values have variance 4/12.
  float Normal(float deviation) {
    const float sum = Uniform() + Uniform() + Uniform() + Uniform();
    return (sum - 2.0F) * 1.7320508F * deviation;
  }

  std::vector<float> Floats(int64_t n, float deviation = 1, float mean = 0) {
    std::vector<float> values(static_cast<size_t>(n));
    for (float& value : values) value = mean + Normal(deviation);
    return values;
  }
  std::vector<Bf16> Bf16s(int64_t n, float deviation = 1, float mean = 0) {
    std::vector<Bf16> values(static_cast<size_t>(n));
    for (Bf16& value : values) value = ToBf16(mean + Normal(deviation));
    return values;
  }
  StoredMatrix Weight(MatrixFormat format, int64_t n_out, int64_t n_in);

 private:
  // Scales and minima of either sign, below what makes values of about +-1.
  void GiveBlocksScales(MatrixFormat format, std::vector<uint8_t>& blocks) {
    const BlockShape shape = ShapeOf(format);
    const bool is_k = shape.n_values == kMaxBlockValues;
    for (size_t block = 0; block < blocks.size(); block += static_cast<size_t>(shape.n_bytes)) {
      for (const size_t place : {0, 2, 208}) {
        const bool is_scale = place == (format == MatrixFormat::kQ6K ? 208 : 0);
        if (!is_scale && !(place == 2 && shape.has_min)) continue;
        // High byte: sign, exponent from 2^-8 (K formats: 2^-14, their factors go to 63 or 127).
        const int32_t exponent = (is_k ? 1 : 7) + Below(3);
        blocks[block + place + 1] = static_cast<uint8_t>((Below(2) << 7) | (exponent << 2) |
                                                         (blocks[block + place + 1] & 3));
      }
    }
  }

  uint64_t state_;
};

// Values of about +-1. Codes are any but NaN; neighbouring scales differ, so that a wrong one
// shows.
inline StoredMatrix Samples::Weight(MatrixFormat format, int64_t n_out, int64_t n_in) {
  StoredMatrix weight;
  const int64_t n = n_out * n_in;
  const int64_t n_across = (n_in + 31) / 32;
  const auto bytes_of = [&](int64_t n_bytes) {
    std::vector<uint8_t> bytes(static_cast<size_t>(n_bytes));
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(Bits());
    return bytes;
  };
  switch (format) {
    case MatrixFormat::kBf16: {
      const std::vector<Bf16> values = Bf16s(n);
      weight.data.resize(values.size() * 2);
      std::memcpy(weight.data.data(), values.data(), weight.data.size());
      break;
    }
    case MatrixFormat::kF16:
      weight.data = bytes_of(n * 2);
      // Exponents of 2^-15 to 2^0.
      for (size_t i = 1; i < weight.data.size(); i += 2) weight.data[i] &= 0xBF;
      break;
    case MatrixFormat::kF32: {
      const std::vector<float> values = Floats(n);
      weight.data.resize(values.size() * 4);
      std::memcpy(weight.data.data(), values.data(), weight.data.size());
      break;
    }
    case MatrixFormat::kFp8:
      weight.data = bytes_of(n);
      for (uint8_t& code : weight.data) code = (code & 0x7F) == 0x7F ? 0x3A : code;
      weight.scales = bytes_of((n_out + 31) / 32 * n_across);
      for (uint8_t& scale : weight.scales) scale = static_cast<uint8_t>(119 + scale % 3);
      break;
    case MatrixFormat::kFp4:
      weight.data = bytes_of(n / 2);
      weight.scales = bytes_of(n_out * n_across);
      for (uint8_t& scale : weight.scales) scale = static_cast<uint8_t>(124 + scale % 3);
      break;
    default:
      weight.data = bytes_of(n / ShapeOf(format).n_values * ShapeOf(format).n_bytes);
      GiveBlocksScales(format, weight.data);
  }
  weight.matrix = {.format = format,
                   .data = weight.data.data(),
                   .scales = weight.scales.empty() ? nullptr : weight.scales.data(),
                   .n_out = n_out,
                   .n_in = n_in};
  return weight;
}

// The same weight as kernels read it; scales of FP8 stay where they are.
inline StoredMatrix PackedFrom(const Matrix& matrix) {
  StoredMatrix packed;
  packed.data.resize(static_cast<size_t>(PackedBytes(matrix)));
  PackStripes(matrix, 0, StripesOf(matrix), reinterpret_cast<std::byte*>(packed.data.data()));
  packed.matrix = matrix;
  packed.matrix.layout = MatrixLayout::kPacked;
  packed.matrix.data = packed.data.data();
  if (matrix.format != MatrixFormat::kFp8) packed.matrix.scales = nullptr;
  return packed;
}

// What operators take when `isa` is the best they may.
inline IsaChoice UpTo(Isa isa) { return {.all = IsasOfMachine().UpTo(isa), .of_op = {}}; }

// Steps between two bf16 values, over zero as well.
inline int32_t Steps(Bf16 a, Bf16 b) {
  const auto rank = [](Bf16 x) {
    const int32_t magnitude = x.bits & 0x7FFF;
    return (x.bits & 0x8000) != 0 ? -magnitude : magnitude;
  };
  return rank(a) > rank(b) ? rank(a) - rank(b) : rank(b) - rank(a);
}

// run(first_row, n_rows, stream) -> output bytes of these rows, the same number for each. A row
// must have the same bits alone, in any batch and with 1, 2 and 3 threads; no rows are no bytes.
template <typename RunRows>
void ExpectRowsAreIndependent(int64_t n_rows, Arithmetic arithmetic, const RunRows& run) {
  ThreadTeam one(1);
  Stream stream{.team = one, .arithmetic = arithmetic};
  const std::vector<uint8_t> all = run(0, n_rows, stream);
  ASSERT_FALSE(all.empty());
  const int64_t row_bytes = static_cast<int64_t>(all.size()) / n_rows;
  for (int32_t n_threads = 1; n_threads <= 3; ++n_threads) {
    ThreadTeam team(n_threads);
    Stream threads{.team = team, .arithmetic = arithmetic};
    EXPECT_EQ(run(0, n_rows, threads), all) << n_threads << " threads";
    EXPECT_TRUE(run(0, 0, threads).empty());
    const int64_t n_together = n_threads;  // batches of 1, 2 and 3 rows
    for (int64_t first = 0; first + n_together <= n_rows; first += n_together) {
      const std::vector<uint8_t> part(all.begin() + first * row_bytes,
                                      all.begin() + (first + n_together) * row_bytes);
      EXPECT_EQ(run(first, n_together, threads), part)
          << n_together << " rows from " << first << " with " << n_threads << " threads";
    }
  }
}

template <typename T>
void AppendBytes(const std::vector<T>& values, std::vector<uint8_t>& bytes) {
  const auto* begin = reinterpret_cast<const uint8_t*>(values.data());
  bytes.insert(bytes.end(), begin, begin + values.size() * sizeof(T));
}

template <typename T>
std::vector<uint8_t> BytesOf(const std::vector<T>& values) {
  std::vector<uint8_t> bytes;
  AppendBytes(values, bytes);
  return bytes;
}

}  // namespace sluice::harness
