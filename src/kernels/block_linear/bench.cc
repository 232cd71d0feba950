// Speed of op block_linear as shares of the read bandwidth and of the bf16 peak of the same rounds:
// matrices of a 1.1B model, more of them than caches hold, and six layers of SmolLM2-135M, which
// stay in a third level of 32 MiB; for these the share of read is above 1.
//
//   kernels_block_linear_bench [--threads N] [--rows M] [--format Q8_0] [--set memory|layers]
//                              [--layout rows|packed] [--variant ISA]

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "kernels/block_linear/op.h"
#include "kernels/harness/limits_bench_impl.h"
#include "tensor/block_decode.h"
#include "tensor/packed.h"

namespace sluice::ops::block_linear {
namespace {

constexpr int kRounds = 5;
constexpr int64_t kMemoryBytes = int64_t{192} << 20;
constexpr int64_t kRowCounts[] = {1, 2, 4, 8, 16, 64, 512};

struct Options {
  int32_t threads = 0;  // 0: 1 and 2
  int64_t rows = 0;     // 0: all
  std::string_view format;
  std::string_view set;
  MatrixLayout layout = MatrixLayout::kPacked;
  IsaChoice isas;
};

struct Shape {
  int64_t n_out = 0;
  int64_t n_in = 0;
};

std::vector<Shape> ShapesOf(std::string_view set) {
  if (set == "memory") return std::vector<Shape>(10, {.n_out = 5632, .n_in = 2048});
  std::vector<Shape> shapes;
  for (int layer = 0; layer < 6; ++layer) {
    for (const int64_t n_out : {576, 192, 192, 576, 1536, 1536}) {
      shapes.push_back({.n_out = n_out, .n_in = 576});
    }
    shapes.push_back({.n_out = 576, .n_in = 1536});
  }
  return shapes;
}

// Codes of all values but -128; scales and minima of about 2^-8, of either sign.
std::vector<uint8_t> MakeRows(MatrixFormat format, int64_t n_bytes) {
  const BlockShape shape = ShapeOf(format);
  std::vector<uint8_t> bytes(static_cast<size_t>(n_bytes));
  uint32_t state = 1;
  for (uint8_t& byte : bytes) {
    state = state * 1664525U + 1013904223U;
    byte = static_cast<uint8_t>(state >> 24);
    if (byte == 0x80) byte = 0x81;
  }
  for (size_t at = 0; at < bytes.size(); at += static_cast<size_t>(shape.n_bytes)) {
    uint8_t* block = bytes.data() + at;
    uint8_t& scale = block[ScaleByteOf(format) + 1];
    scale = static_cast<uint8_t>((scale & 0x83) | 0x1C);
    uint8_t& min = block[kMinByte + 1];
    if (shape.has_min) min = static_cast<uint8_t>((min & 0x83) | 0x1C);
  }
  return bytes;
}

struct Weights {
  std::string name;
  std::vector<Matrix> matrices;
  int64_t n_bytes = 0;
  bool stays_in_cache = false;
};

Weights MakeWeights(MatrixFormat format,
                    std::string_view set,
                    MatrixLayout layout,
                    const harness::BenchMemory& memory) {
  Weights weights{.name = std::string(NameOf(format)) + " " + std::string(set), .matrices = {}};
  for (const Shape& shape : ShapesOf(set)) {
    Matrix matrix{.format = format, .n_out = shape.n_out, .n_in = shape.n_in};
    const int64_t row_bytes = matrix.n_out * RowBytesOf(matrix);
    const std::vector<uint8_t> rows = MakeRows(format, row_bytes);
    std::byte* place = memory.data() + weights.n_bytes;
    matrix.data = rows.data();
    if (layout == MatrixLayout::kPacked) {
      SLUICE_CHECK(CanPack(matrix));
      PackStripes(matrix, 0, StripesOf(matrix), place);
      weights.n_bytes += PackedBytes(matrix);
    } else {
      std::memcpy(place, rows.data(), rows.size());
      weights.n_bytes += (row_bytes + 63) / 64 * 64;
    }
    matrix.layout = layout;
    matrix.data = place;
    weights.matrices.push_back(matrix);
  }
  SLUICE_CHECK(weights.n_bytes < kMemoryBytes);
  weights.stays_in_cache = set == "layers";
  return weights;
}

// 32 outputs of the first and the last row against ref.
void Verify(const Params& params, Stream& stream) {
  constexpr int64_t kOutputs = 32;
  std::vector<float> want(kOutputs);
  for (const int64_t row : {int64_t{0}, params.n_rows - 1}) {
    const int64_t first = params.weight.n_out / 2 / kOutputs * kOutputs;
    Params part = params;
    part.x = params.x + row * params.x_stride;
    part.n_rows = 1;
    part.weight = RowsOf(params.weight, first, kOutputs);
    part.out_f32 = want.data();
    ref::Run(part, stream);
    const float* got = params.out_f32 + row * params.out_stride + first;
    SLUICE_CHECK(std::memcmp(got, want.data(), want.size() * sizeof(float)) == 0);
  }
}

void Bench(const Options& options,
           const Weights& weights,
           const std::byte* memory,
           int64_t n_rows,
           int32_t n_threads) {
  constexpr int64_t kWidest = 5632;
  std::vector<Bf16> x(static_cast<size_t>(n_rows * kWidest));
  for (size_t i = 0; i < x.size(); ++i) x[i] = ToBf16(static_cast<float>(i * 37 % 61) - 30.0F);
  std::vector<float> out(static_cast<size_t>(n_rows * kWidest));
  ThreadTeam team(n_threads);
  Stream stream{.team = team, .isas = options.isas};
  const auto params_of = [&](const Matrix& matrix) {
    return Params{.x = x.data(),
                  .x_stride = matrix.n_in,
                  .n_rows = n_rows,
                  .weight = matrix,
                  .out_f32 = out.data(),
                  .out_stride = matrix.n_out};
  };
  // Layers that the limits have driven out of the caches come back in the first of several rounds.
  const int64_t n_repeats = weights.stays_in_cache && n_rows < 32 ? 32 / n_rows : 1;
  Isa isa{};
  harness::Work work{.bytes = static_cast<double>(weights.n_bytes * n_repeats)};
  for (const Matrix& matrix : weights.matrices) {
    const Params params = params_of(matrix);
    Run(params, stream);
    Verify(params, stream);
    isa = ChosenIsa(params, stream);
    work.operations += 2.0 * static_cast<double>(n_repeats * n_rows * matrix.n_out * matrix.n_in);
  }
  const harness::Measured got =
      harness::MeasureShares(team, memory, kMemoryBytes, kRounds, work, [&] {
        for (int64_t i = 0; i < n_repeats; ++i) {
          for (const Matrix& matrix : weights.matrices) Run(params_of(matrix), stream);
        }
      });
  std::printf(
      "%-12s %4d rows %d threads %-10s %6.1f GB/s %7.1f GFLOP/s  wall: read %.2f bf16 %.2f  busy: "
      "read %.2f bf16 %.2f\n",
      weights.name.c_str(), static_cast<int>(n_rows), n_threads, std::string(NameOf(isa)).c_str(),
      got.gbps, got.gops, got.of_read.wall, got.of_bf16.wall, got.of_read.busy, got.of_bf16.busy);
  std::fflush(stdout);
}

Options Parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    const char* value = argv[i + 1];
    if (name == "--threads") options.threads = std::atoi(value);
    if (name == "--rows") options.rows = std::atoi(value);
    if (name == "--format") options.format = value;
    if (name == "--set") options.set = value;
    if (name == "--layout" && std::string_view(value) == "rows") {
      options.layout = MatrixLayout::kRows;
    }
    if (name == "--variant") {
      Result<IsaChoice> choice = ParseIsaChoice(value);
      SLUICE_CHECK(choice.has_value() && "an instruction set this machine lacks");
      options.isas = *choice;
    }
  }
  return options;
}

void BenchAll(const Options& options, MatrixFormat format, const harness::BenchMemory& memory) {
  for (const std::string_view set : {"memory", "layers"}) {
    if (!options.set.empty() && options.set != set) continue;
    const Weights weights = MakeWeights(format, set, options.layout, memory);
    for (const int64_t n_rows : kRowCounts) {
      if (options.rows != 0 && options.rows != n_rows) continue;
      for (const int32_t n_threads : {1, 2}) {
        if (options.threads != 0 && options.threads != n_threads) continue;
        Bench(options, weights, memory.data(), n_rows, n_threads);
      }
    }
  }
}

}  // namespace
}  // namespace sluice::ops::block_linear

int main(int argc, char** argv) {
  using namespace sluice;
  using namespace sluice::ops::block_linear;
  const Options options = Parse(argc, argv);
  const harness::BenchMemory memory(kMemoryBytes);
  // All of it is read as the limit; what was never written would be one page of zeros.
  std::memset(memory.data(), 1, kMemoryBytes);
  for (const MatrixFormat format :
       {MatrixFormat::kQ8_0, MatrixFormat::kQ4_0, MatrixFormat::kQ4_1, MatrixFormat::kQ5_0,
        MatrixFormat::kQ5_1, MatrixFormat::kQ4K, MatrixFormat::kQ5K, MatrixFormat::kQ6K}) {
    const bool is_asked_for = options.format == NameOf(format);
    // Those without a packed form: by their names, in rows.
    const bool is_packed = PackedShapeOf(format).n_rows > 0;
    if (is_asked_for || (options.format.empty() && is_packed)) BenchAll(options, format, memory);
  }
  return 0;
}
