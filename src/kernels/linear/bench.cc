// Speed of op linear as spec cpu-kernels.md §3.7 asks for it: FP4 and FP8 matrices of an expert's
// gate and up (4608 x 5120), 48 of them, so that every byte comes from memory, and the BF16 head;
// shares of the read bandwidth and of the bf16 peak of the same rounds, beside the targets.
//
//   kernels_linear_bench [--json] [--threads N] [--rows M] [--format fp4|fp8|bf16] [--variant ISA]
//
// --json: lines of {kernel, M, threads, gbps, gops} instead of the table.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "kernels/harness/limits_bench_impl.h"
#include "kernels/linear/op.h"
#include "tensor/packed.h"

namespace sluice::ops::linear {
namespace {

constexpr int64_t kIn = 5120;
constexpr int kRounds = 5;

struct Options {
  bool json = false;
  int32_t threads = 0;  // 0: 1 and 2
  int64_t rows = 0;     // 0: all
  std::string_view format;
  IsaChoice isas;
};

// What §3.7 asks for with 1 and 2 threads: enough of one of the two.
struct Target {
  int64_t rows;
  double of_read[2];
  double of_bf16[2];
};
constexpr double kNone = 9;
constexpr Target kFp4Targets[] = {
    {1, {0.92, 0.90}, {kNone, kNone}},  {2, {0.87, 0.80}, {kNone, kNone}},
    {4, {0.85, 0.85}, {0.75, 0.75}},    {8, {kNone, kNone}, {0.83, 0.80}},
    {16, {kNone, kNone}, {0.86, 0.82}}, {64, {kNone, kNone}, {0.88, 0.85}},
    {256, {kNone, kNone}, {0.88, 0.85}}};
constexpr Target kFp8Targets[] = {
    {1, {0.92, 0.90}, {kNone, kNone}},  {2, {0.88, 0.80}, {kNone, kNone}},
    {4, {0.82, 0.82}, {kNone, kNone}},  {8, {0.88, 0.88}, {0.78, 0.78}},
    {16, {kNone, kNone}, {0.85, 0.80}}, {64, {kNone, kNone}, {0.88, 0.85}},
    {256, {kNone, kNone}, {0.88, 0.85}}};
constexpr Target kBf16Targets[] = {{1, {0.92, 0.90}, {kNone, kNone}},
                                   {8, {0.85, 0.85}, {kNone, kNone}}};

// Matrices of one shape, packed, one behind the other.
struct Weights {
  const char* name = nullptr;
  std::vector<Matrix> matrices;
  const std::byte* memory = nullptr;
  int64_t n_bytes = 0;
  std::vector<uint8_t> scales;
};

// Bytes that are valid codes of every packed format: E4M3 and E2M1 values of both signs but no -0,
// bf16 below 2.
void FillWithCodes(std::byte* bytes, int64_t n) {
  uint64_t state = 1;
  for (int64_t i = 0; i + 8 <= n; i += 8) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    const uint64_t codes = ((state ^ state >> 29) & 0xBFBFBFBFBFBFBFBF) | 0x0101010101010101;
    std::memcpy(bytes + i, &codes, sizeof codes);
  }
}

Weights MakeWeights(const char* name,
                    MatrixFormat format,
                    int64_t n_out,
                    int n_matrices,
                    harness::BenchMemory& memory) {
  Weights weights{.name = name, .matrices = {}, .memory = memory.data(), .scales = {}};
  Matrix matrix{.format = format, .layout = MatrixLayout::kPacked, .n_out = n_out, .n_in = kIn};
  const PackedShape shape = PackedShapeOf(format);
  weights.scales.assign(static_cast<size_t>(StripesOf(matrix) * RecordsOf(matrix)), 122);
  weights.n_bytes = PackedBytes(matrix) * n_matrices;
  FillWithCodes(memory.data(), weights.n_bytes);
  if (format == MatrixFormat::kFp4) {
    for (int64_t at = 0; at < weights.n_bytes; at += shape.n_bytes) {
      for (int64_t row = 0; row < 64; ++row) {
        auto& scale = reinterpret_cast<uint8_t&>(memory.data()[at + row]);
        scale = static_cast<uint8_t>(kPackedExponent - 122 - scale % 3);
      }
    }
  }
  for (int i = 0; i < n_matrices; ++i) {
    matrix.data = memory.data() + i * PackedBytes(matrix);
    matrix.scales = format == MatrixFormat::kFp8 ? weights.scales.data() : nullptr;
    weights.matrices.push_back(matrix);
  }
  return weights;
}

// A few outputs of the first and the last row against ref.
void Verify(Params params, Stream& stream) {
  const int64_t n_stripe_rows = PackedShapeOf(params.weight.format).n_rows;
  std::vector<float> want(static_cast<size_t>(n_stripe_rows));
  const int64_t last_row = params.n_rows - 1;
  for (const int64_t row : {int64_t{0}, last_row}) {
    Params part = params;
    part.x = params.x + row * params.x_stride;
    part.n_rows = 1;
    const int64_t first = params.weight.n_out / 2 / n_stripe_rows * n_stripe_rows;
    part.weight = RowsOf(params.weight, first, n_stripe_rows);
    part.out_f32 = want.data();
    ref::Run(part, stream);
    const float* got = params.out_f32 + row * params.out_stride + first;
    SLUICE_CHECK(std::memcmp(got, want.data(), want.size() * sizeof(float)) == 0);
  }
}

void Print(const Options& options,
           const Weights& weights,
           const Target& target,
           int32_t n_threads,
           const harness::Measured& got) {
  if (options.json) {
    std::printf(
        "{\"kernel\": \"linear-%s\", \"M\": %d, \"threads\": %d, \"gbps\": %.2f, \"gops\": %.1f, "
        "\"of_read\": %.3f, \"of_bf16\": %.3f}\n",
        weights.name, static_cast<int>(target.rows), n_threads, got.gbps, got.gops,
        got.of_read.wall, got.of_bf16.wall);
  } else {
    const double of_read = target.of_read[n_threads > 1];
    const double of_bf16 = target.of_bf16[n_threads > 1];
    const auto met = [&](double read, double bf16) {
      return read >= of_read || bf16 >= of_bf16 ? "met" : "MISSED";
    };
    char wanted[64] = "";
    int n = 0;
    if (of_read < 1) n = std::snprintf(wanted, sizeof wanted, "read %.2f ", of_read);
    if (of_bf16 < 1) std::snprintf(wanted + n, sizeof wanted - n, "bf16 %.2f", of_bf16);
    std::printf(
        "%-5s %4d rows %d threads %6.1f GB/s %7.1f GFLOP/s  wall: read %.2f bf16 %.2f %-6s"
        "  busy: read %.2f bf16 %.2f %-6s  target: %s\n",
        weights.name, static_cast<int>(target.rows), n_threads, got.gbps, got.gops,
        got.of_read.wall, got.of_bf16.wall, met(got.of_read.wall, got.of_bf16.wall),
        got.of_read.busy, got.of_bf16.busy, met(got.of_read.busy, got.of_bf16.busy), wanted);
  }
  std::fflush(stdout);
}

void Bench(const Options& options,
           const Weights& weights,
           const Target& target,
           int32_t n_threads) {
  const int64_t n_rows = target.rows;
  const int64_t n_out = weights.matrices[0].n_out;
  std::vector<Bf16> x(static_cast<size_t>(n_rows * kIn));
  for (size_t i = 0; i < x.size(); ++i) x[i] = ToBf16(static_cast<float>(i * 37 % 61) - 30.0F);
  std::vector<float> out(static_cast<size_t>(n_rows * n_out));
  ThreadTeam team(n_threads);
  Stream stream{.team = team, .isas = options.isas};
  Params params{.x = x.data(),
                .x_stride = kIn,
                .n_rows = n_rows,
                .weight = weights.matrices[0],
                .out_f32 = out.data(),
                .out_stride = n_out};
  Run(params, stream);
  Verify(params, stream);
  // Many rows take long and read little: fewer matrices.
  size_t n_matrices = weights.matrices.size();
  for (int64_t rows = n_rows; rows > 4 && n_matrices > 2; rows /= 2)
    n_matrices = (n_matrices + 1) / 2;
  const double share = static_cast<double>(n_matrices) / weights.matrices.size();
  const auto n_outputs = static_cast<double>(n_out * static_cast<int64_t>(n_matrices));
  const harness::Work work{.bytes = static_cast<double>(weights.n_bytes) * share,
                           .operations = 2.0 * kIn * static_cast<double>(n_rows) * n_outputs};
  const harness::Measured got =
      harness::MeasureShares(team, weights.memory, weights.n_bytes, kRounds, work, [&] {
        for (size_t i = 0; i < n_matrices; ++i) {
          params.weight = weights.matrices[i];
          Run(params, stream);
        }
      });
  Print(options, weights, target, n_threads, got);
}

template <size_t kN>
void BenchAll(const Options& options, const Weights& weights, const Target (&targets)[kN]) {
  for (const Target& target : targets) {
    if (options.rows != 0 && options.rows != target.rows) continue;
    for (const int32_t n_threads : {1, 2}) {
      if (options.threads != 0 && options.threads != n_threads) continue;
      Bench(options, weights, target, n_threads);
    }
  }
}

Options Parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (name == "--json") {
      options.json = true;
      continue;
    }
    SLUICE_CHECK(i + 1 < argc && "an option lacks its value");
    const char* value = argv[++i];
    if (name == "--threads") options.threads = std::atoi(value);
    if (name == "--rows") options.rows = std::atoi(value);
    if (name == "--format") options.format = value;
    if (name == "--variant") {
      Result<IsaChoice> choice = ParseIsaChoice(value);
      SLUICE_CHECK(choice.ok() && "an instruction set this machine lacks");
      options.isas = *choice;
    }
  }
  return options;
}

}  // namespace
}  // namespace sluice::ops::linear

int main(int argc, char** argv) {
  using namespace sluice;
  using namespace sluice::ops::linear;
  const Options options = Parse(argc, argv);
  harness::BenchMemory memory(int64_t{129'280} * kIn * 2);  // the largest of the three
  const auto wanted = [&](std::string_view format) {
    return options.format.empty() || options.format == format;
  };
  if (wanted("fp4")) {
    BenchAll(options, MakeWeights("fp4", MatrixFormat::kFp4, 4608, 48, memory), kFp4Targets);
  }
  if (wanted("fp8")) {
    BenchAll(options, MakeWeights("fp8", MatrixFormat::kFp8, 4608, 48, memory), kFp8Targets);
  }
  if (wanted("bf16")) {
    BenchAll(options, MakeWeights("bf16", MatrixFormat::kBf16, 129'280, 1, memory), kBf16Targets);
  }
  return 0;
}
