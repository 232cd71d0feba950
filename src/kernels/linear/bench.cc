// Speed of op linear: a verified product of each weight format with 1, 16 and 256 rows, 1 and 2
// threads, at the shape of an expert's gate (spec cpu-kernels.md §1.1), in float32. Per second of
// the clock, median and extremes, and per second of a processor, which a busy machine does not
// change.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <vector>

#include "base/check.h"
#include "kernels/linear/op.h"

namespace sluice::ops::linear {
namespace {

constexpr int64_t kIn = 5120;
constexpr int64_t kOut = 2304;
constexpr int kRounds = 7;

struct Weight {
  const char* name;
  Matrix matrix;
};

double SecondsNow() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

// Bytes that are valid codes of every format: E4M3 and E2M1 values of both signs, bf16 below 2.
std::vector<uint8_t> Codes(int64_t n) {
  std::vector<uint8_t> codes(static_cast<size_t>(n));
  uint32_t state = 1;
  for (uint8_t& code : codes) {
    state = state * 1664525U + 1013904223U;
    code = static_cast<uint8_t>((state >> 24) & 0xBF);
  }
  return codes;
}

// A few outputs of the first and the last row, as op.h defines them.
void Verify(const Params& params) {
  std::vector<float> weights(kIn);
  for (const int64_t row : {int64_t{0}, params.n_rows - 1}) {
    for (int64_t o = 0; o < kOut; o += 577) {
      DecodeMatrixRow(params.weight, o, weights.data());
      float sum = 0;
      for (int64_t i = 0; i < kIn; i += 2) {
        for (const int64_t k : {i + 1, i}) {
          sum += ToFloat(params.x[row * kIn + k]) * weights[static_cast<size_t>(k)];
        }
      }
      SLUICE_CHECK(params.out_f32[row * kOut + o] == sum);
    }
  }
}

void Bench(const Weight& weight, int64_t n_rows, int32_t n_threads) {
  std::vector<Bf16> x(static_cast<size_t>(n_rows * kIn));
  for (size_t i = 0; i < x.size(); ++i) x[i] = ToBf16(static_cast<float>(i * 37 % 61) - 30.0F);
  std::vector<float> out(static_cast<size_t>(n_rows * kOut));
  ThreadTeam team(n_threads);
  Stream stream{.team = team};
  const Params params{.x = x.data(),
                      .x_stride = kIn,
                      .n_rows = n_rows,
                      .weight = weight.matrix,
                      .out_f32 = out.data(),
                      .out_stride = kOut};
  Run(params, stream);
  Verify(params);
  std::vector<double> seconds;
  const std::clock_t processor_start = std::clock();
  for (int round = 0; round < kRounds; ++round) {
    const double start = SecondsNow();
    Run(params, stream);
    seconds.push_back(SecondsNow() - start);
  }
  const double processor_seconds =
      static_cast<double>(std::clock() - processor_start) / CLOCKS_PER_SEC / kRounds;
  std::sort(seconds.begin(), seconds.end());
  const double gflop = 2e-9 * static_cast<double>(n_rows * kIn * kOut);
  std::printf("%-5s rows %4d threads %d  %7.2f GFLOP/s  [%.2f, %.2f]  %7.2f per processor\n",
              weight.name, static_cast<int>(n_rows), n_threads, gflop / seconds[kRounds / 2],
              gflop / seconds.back(), gflop / seconds.front(), gflop / processor_seconds);
}

}  // namespace
}  // namespace sluice::ops::linear

int main() {
  using namespace sluice;
  using namespace sluice::ops::linear;
  const std::vector<uint8_t> codes = Codes(kIn * kOut * 2);
  const std::vector<uint8_t> scales(static_cast<size_t>(kOut * kIn / 32), 125);
  for (const auto& [name, format] :
       {std::pair("fp8", MatrixFormat::kFp8), std::pair("fp4", MatrixFormat::kFp4),
        std::pair("bf16", MatrixFormat::kBf16)}) {
    const Weight weight{.name = name,
                        .matrix = {.format = format,
                                   .data = codes.data(),
                                   .scales = scales.data(),
                                   .n_out = kOut,
                                   .n_in = kIn}};
    for (const int64_t n_rows : {1, 16, 256}) {
      for (const int32_t n_threads : {1, 2}) Bench(weight, n_rows, n_threads);
    }
  }
  return 0;
}
