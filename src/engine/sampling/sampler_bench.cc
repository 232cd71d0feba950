// From a row of logits to a token: microseconds a row of one thread, and how often the row could be
// read meanwhile. Each case first draws some tokens by the plain definition, and the two must
// agree. Seconds are those of the processor, so that a busy machine does not change them.
//
//   engine_sampler_bench

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <random>
#include <vector>

#include "base/check.h"
#include "engine/sampling/logits.h"
#include "engine/sampling/plain_sampler_test_impl.h"
#include "engine/sampling/sampler.h"

namespace sluice::engine {
namespace {

constexpr int32_t kVocab = 129'280;
constexpr int kRounds = 9;
constexpr int kVerified = 5;
constexpr double kSecondsOfRound = 0.05;

// Median and extremes of the seconds of one call of `work(i)`.
template <typename Work>
std::vector<double> Measure(Work work) {
  std::vector<double> seconds;
  int64_t i = 0;
  for (int round = 0; round < kRounds; ++round) {
    const std::clock_t start = std::clock();
    double spent = 0;
    int n_calls = 0;
    do {
      work(i++);
      ++n_calls;
      spent = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    } while (spent < kSecondsOfRound);
    seconds.push_back(spent / n_calls);
  }
  std::sort(seconds.begin(), seconds.end());
  return {seconds[kRounds / 2], seconds.front(), seconds.back()};
}

// Like a language model's: a few tokens stand out of a broad rest. `spread` 0: all are equal.
std::vector<float> Row(uint32_t seed, float spread) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> row(kVocab);
  for (float& logit : row) logit = spread * normal(random);
  for (int i = 0; i < 40; ++i) row[random() % row.size()] += spread * 4;
  return row;
}

void Report(const char* name, const std::vector<double>& seconds, double read_s) {
  std::printf("%-34s %8.1f us a row  [%.1f, %.1f]  %6.1f times reading it\n", name,
              1e6 * seconds[0], 1e6 * seconds[1], 1e6 * seconds[2], seconds[0] / read_s);
}

// Looking at all of it once, 16 logits at a time.
double MeasureReading(const std::vector<float>& row) {
  volatile int32_t seen = 0;
  const std::vector<double> seconds = Measure([&](int64_t) {
    int32_t sums[16] = {};
    const float* const logits = row.data();
    for (int32_t i = 0; i < kVocab; i += 16) {
      for (int32_t c = 0; c < 16; ++c) sums[c] ^= std::bit_cast<int32_t>(logits[i + c]);
    }
    for (const int32_t sum : sums) seen = seen ^ sum;
  });
  Report("reading", seconds, seconds[0]);
  return seconds[0];
}

void BenchSample(const char* name,
                 const std::vector<float>& row,
                 const SampleParams& params,
                 double read_s) {
  Sampler sampler;
  for (int64_t position = 0; position < kVerified; ++position) {
    SLUICE_CHECK(sampler.Sample(row, params, position) == PlainSample(row, params, position));
  }
  Report(name,
         Measure([&](int64_t position) { SLUICE_CHECK(sampler.Sample(row, params, position)); }),
         read_s);
}

void BenchPlain(const char* name,
                const std::vector<float>& row,
                const SampleParams& params,
                double read_s) {
  Report(name, Measure([&](int64_t position) { SLUICE_CHECK(PlainSample(row, params, position)); }),
         read_s);
}

void Bench() {
  const std::vector<float> row = Row(1, 3);
  const double read_s = MeasureReading(row);
  Report("check that it is finite", Measure([&](int64_t) { SLUICE_CHECK(IsFinite(row)); }), read_s);
  BenchSample("greedy", row, {.temperature = 0}, read_s);
  BenchSample("temperature 1", row, {}, read_s);
  BenchSample("temperature 0.6", row, {.temperature = 0.6}, read_s);
  BenchSample("temperature 0.6, top_p 0.95", row, {.temperature = 0.6, .top_p = 0.95}, read_s);
  BenchSample("top_p 0.95", row, {.top_p = 0.95}, read_s);
  BenchSample("top_k 50", row, {.top_k = 50}, read_s);
  BenchSample("min_p 0.05", row, {.min_p = 0.05}, read_s);
  BenchSample("top_p 0.95 of equal logits", Row(1, 0), {.top_p = 0.95}, read_s);
  BenchPlain("plainly: temperature 1", row, {}, read_s);
  BenchPlain("plainly: top_p 0.95", row, {.top_p = 0.95}, read_s);
  Report("20 log probabilities", Measure([&](int64_t i) {
           const TokenId token(static_cast<int32_t>(i % kVocab));
           SLUICE_CHECK(LogprobOf(row, token, 20).alternatives.size() == 20);
         }),
         read_s);
}

}  // namespace
}  // namespace sluice::engine

int main() {
  sluice::engine::Bench();
  return 0;
}
