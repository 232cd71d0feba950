// Speed of op block_linear: a verified product of each format with 1, 2, 8 and 32 rows and one
// thread, and all matrices of SmolLM2-135M in Q4_1 with its head in Q8_0, once, as a decoded token
// and rows of a prompt need them. Seconds of the clock, best and median of rounds, and of a
// processor, which a busy machine does not change; weights read per second as a share of what the
// same threads read from memory, measured between the rounds.

#include <emmintrin.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <string>
#include <vector>

#include "base/check.h"
#include "kernels/block_linear/op.h"
#include "tensor/block_decode.h"

namespace sluice::ops::block_linear {
namespace {

constexpr int kRounds = 7;
constexpr int64_t kReadBytes = int64_t{256} << 20;

struct Weight {
  Matrix matrix;
  std::vector<uint8_t> bytes;
};

double SecondsNow() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

// Codes of all values; scales of about 2^-8, of either sign.
Weight MakeWeight(MatrixFormat format, int64_t n_out, int64_t n_in) {
  const BlockShape shape = ShapeOf(format);
  Weight weight;
  weight.matrix = {.format = format, .n_out = n_out, .n_in = n_in};
  weight.bytes.resize(static_cast<size_t>(n_out * RowBytesOf(weight.matrix)));
  uint32_t state = 1;
  for (uint8_t& byte : weight.bytes) {
    state = state * 1664525U + 1013904223U;
    byte = static_cast<uint8_t>(state >> 24);
  }
  for (size_t at = 0; at < weight.bytes.size(); at += static_cast<size_t>(shape.n_bytes)) {
    uint8_t* block = weight.bytes.data() + at;
    uint8_t& scale = block[ScaleByteOf(format) + 1];
    scale = static_cast<uint8_t>((scale & 0x83) | 0x1C);
    if (shape.has_min)
      block[kMinByte + 1] = static_cast<uint8_t>((block[kMinByte + 1] & 0x83) | 0x1C);
  }
  weight.matrix.data = weight.bytes.data();
  return weight;
}

template <MatrixFormat kFormat>
float OneOutput(const Bf16* x, const uint8_t* row, int64_t n_in) {
  constexpr BlockShape kShape = ShapeOf(kFormat);
  int8_t codes[kMaxBlockValues];
  float scales[kMaxBlockGroups];
  float mins[kMaxBlockGroups];
  float sum = 0;
  for (int64_t at = 0; at < n_in; ++at) {
    const int64_t in_block = at % kShape.n_values;
    const uint8_t* block = row + at / kShape.n_values * kShape.n_bytes;
    if (in_block == 0) DecodeCodes<kFormat>(block, codes);
    if (in_block == 0) DecodeScales<kFormat>(block, scales, mins);
    if (in_block % kShape.group != 0) continue;
    float s = 0;
    float t = 0;
    for (int64_t k = 0; k < kShape.group; ++k) {
      const float input = ToFloat(x[at + (k ^ 1)]);  // the odd one first
      s += input * static_cast<float>(codes[in_block + (k ^ 1)]);
      t += input;
    }
    sum += scales[in_block / kShape.group] * s;
    if (kShape.has_min) sum += mins[in_block / kShape.group] * t;
  }
  return sum;
}

// A few outputs of the first and the last row, as op.h defines them.
void Verify(const Params& params) {
  const Matrix& weight = params.weight;
  for (const int64_t row : {int64_t{0}, params.n_rows - 1}) {
    for (int64_t o = 0; o < weight.n_out; o += 577) {
      const auto* bytes = static_cast<const uint8_t*>(weight.data) + o * RowBytesOf(weight);
      const Bf16* x = params.x + row * params.x_stride;
      WithBlockFormat(weight.format, [&](auto tag) {
        const float want = OneOutput<tag.kFormat>(x, bytes, weight.n_in);
        SLUICE_CHECK(params.out_f32[row * params.out_stride + o] == want);
      });
    }
  }
}

// Bytes per second that the team reads from memory.
double ReadRate(ThreadTeam& team) {
  static const std::vector<uint8_t> bytes(kReadBytes, 1);
  std::vector<double> seconds;
  for (int round = 0; round < 3; ++round) {
    const double start = SecondsNow();
    team.Run(kReadBytes / 4096, [&](int64_t begin, int64_t end, int32_t) {
      __m128i sum = _mm_setzero_si128();
      for (int64_t at = begin * 4096; at < end * 4096; at += 16) {
        sum =
            _mm_add_epi8(sum, _mm_load_si128(reinterpret_cast<const __m128i*>(bytes.data() + at)));
      }
      SLUICE_CHECK(end - begin < 16 || _mm_cvtsi128_si32(sum) != 1);  // so that it is needed
    });
    seconds.push_back(SecondsNow() - start);
  }
  return static_cast<double>(kReadBytes) / *std::ranges::min_element(seconds);
}

// All weights one after another.
void Bench(const char* name,
           const std::vector<Weight>& weights,
           int64_t n_rows,
           int32_t n_threads) {
  int64_t n_in = 0;
  int64_t n_out = 0;
  double n_bytes = 0;
  double n_products = 0;
  for (const Weight& weight : weights) {
    n_in = std::max(n_in, weight.matrix.n_in);
    n_out = std::max(n_out, weight.matrix.n_out);
    n_bytes += static_cast<double>(weight.bytes.size());
    n_products += static_cast<double>(n_rows * weight.matrix.n_in * weight.matrix.n_out);
  }
  std::vector<Bf16> x(static_cast<size_t>(n_rows * n_in));
  for (size_t i = 0; i < x.size(); ++i) x[i] = ToBf16(static_cast<float>(i * 37 % 61) - 30.0F);
  std::vector<float> out(static_cast<size_t>(n_rows * n_out));
  ThreadTeam team(n_threads);
  Stream stream{.team = team};
  const auto params_of = [&](const Weight& weight) {
    return Params{.x = x.data(),
                  .x_stride = n_in,
                  .n_rows = n_rows,
                  .weight = weight.matrix,
                  .out_f32 = out.data(),
                  .out_stride = weight.matrix.n_out};
  };
  for (const Weight& weight : weights) {
    Run(params_of(weight), stream);
    Verify(params_of(weight));
  }
  std::vector<double> seconds;
  double processor_seconds = 0;
  double read_rate = 0;
  for (int round = 0; round < kRounds; ++round) {
    read_rate = std::max(read_rate, round % 3 == 0 ? ReadRate(team) : 0.0);
    const std::clock_t processor_start = std::clock();
    const double start = SecondsNow();
    for (const Weight& weight : weights) Run(params_of(weight), stream);
    seconds.push_back(SecondsNow() - start);
    processor_seconds +=
        static_cast<double>(std::clock() - processor_start) / CLOCKS_PER_SEC / kRounds;
  }
  std::sort(seconds.begin(), seconds.end());
  std::printf(
      "%-8s rows %3d threads %d  best %7.2f median %7.2f processor %7.2f ms  %6.2f GFLOP/s  "
      "weights %5.2f GB/s, %4.1f %% of reading (%.1f)\n",
      name, static_cast<int>(n_rows), n_threads, seconds[0] * 1e3, seconds[kRounds / 2] * 1e3,
      processor_seconds * 1e3, 2e-9 * n_products / seconds[0], n_bytes / seconds[0] * 1e-9,
      n_bytes / seconds[0] / read_rate * 100, read_rate * 1e-9);
}

std::vector<Weight> SmolLm2() {
  constexpr int64_t kWidth = 576;
  constexpr int64_t kKv = 192;
  constexpr int64_t kFfn = 1536;
  constexpr MatrixFormat kFormat = MatrixFormat::kQ4_1;
  std::vector<Weight> weights;
  for (int layer = 0; layer < 30; ++layer) {
    for (const int64_t n_out : {kWidth, kKv, kKv, kWidth, kFfn, kFfn}) {
      weights.push_back(MakeWeight(kFormat, n_out, kWidth));
    }
    weights.push_back(MakeWeight(kFormat, kWidth, kFfn));
  }
  return weights;
}

}  // namespace
}  // namespace sluice::ops::block_linear

int main() {
  using namespace sluice;
  using namespace sluice::ops::block_linear;
  for (const MatrixFormat format :
       {MatrixFormat::kQ4_0, MatrixFormat::kQ4_1, MatrixFormat::kQ5_0, MatrixFormat::kQ5_1,
        MatrixFormat::kQ8_0, MatrixFormat::kQ4K, MatrixFormat::kQ5K, MatrixFormat::kQ6K}) {
    std::vector<Weight> weights;
    weights.push_back(MakeWeight(format, 16'384, 2048));
    const std::string name(NameOf(format));
    for (const int64_t n_rows : {1, 2, 8, 32}) Bench(name.c_str(), weights, n_rows, 1);
  }
  std::vector<Weight> layers = SmolLm2();
  for (const int32_t n_threads : {1, 2}) {
    for (const int64_t n_rows : {32, 256}) Bench("layers", layers, n_rows, n_threads);
  }
  layers.push_back(MakeWeight(MatrixFormat::kQ8_0, 49'152, 576));
  for (const int32_t n_threads : {1, 2}) Bench("token", layers, 1, n_threads);
  return 0;
}
