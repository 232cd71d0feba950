// Speed of op gqa_attention at the shape of SmolLM2-135M: one row behind a long text, and a piece
// of a prompt. Verified against a thread more. Per second of the clock, median and extremes.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "kernels/gqa_attention/op.h"

namespace sluice::ops::gqa_attention {
namespace {

constexpr int32_t kHeads = 9, kKvHeads = 3, kHeadDim = 64;
constexpr int32_t kRowBytes = kKvHeads * kHeadDim * 2;
constexpr int32_t kBlock = 64;
constexpr int kRounds = 9;

double SecondsNow() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

// n values of about +-1 as bf16.
std::vector<Bf16> Values(int64_t n) {
  std::vector<Bf16> values(static_cast<size_t>(n));
  uint32_t state = 1;
  for (Bf16& value : values) {
    state = state * 1664525U + 1013904223U;
    value = ToBf16(static_cast<float>(static_cast<int32_t>(state >> 8) % 1000) / 500.0F - 1.0F);
  }
  return values;
}

// The last n_rows rows of a text of n_context tokens.
void Bench(int32_t n_context, int32_t n_rows, int32_t n_threads) {
  const std::vector<Bf16> stored = Values(int64_t{n_context} * kKvHeads * kHeadDim);
  std::vector<BlockId> blocks;
  for (int32_t i = 0; i * kBlock < n_context; ++i) blocks.emplace_back(i);
  const PagedRows pages{.base = reinterpret_cast<const uint8_t*>(stored.data()),
                        .blocks = blocks.data(),
                        .block_bytes = int64_t{kRowBytes} * kBlock,
                        .rows_per_block = kBlock,
                        .row_bytes = kRowBytes};
  const Sequence sequence{.keys = pages, .values = pages, .n_rows = n_rows};
  const size_t n_values = static_cast<size_t>(n_rows) * kHeads * kHeadDim;
  std::vector<float> q(n_values);
  for (size_t i = 0; i < n_values; ++i) q[i] = static_cast<float>(i * 37 % 61) / 30.0F - 1.0F;
  std::vector<int32_t> positions;
  for (int32_t i = 0; i < n_rows; ++i) positions.push_back(n_context - n_rows + i);
  const auto run = [&](int32_t n_workers, std::vector<Bf16>& out) {
    ThreadTeam team(n_workers);
    Stream stream{.team = team};
    std::vector<double> seconds;
    for (int round = 0; round < kRounds; ++round) {
      const double start = SecondsNow();
      gqa_attention::Run({.q = q.data(),
                          .positions = positions.data(),
                          .sequences = &sequence,
                          .n_sequences = 1,
                          .n_heads = kHeads,
                          .n_kv_heads = kKvHeads,
                          .head_dim = kHeadDim,
                          .scale = 0.125F,
                          .out = out.data()},
                         stream);
      seconds.push_back(SecondsNow() - start);
    }
    std::ranges::sort(seconds);
    return seconds;
  };
  std::vector<Bf16> out(n_values), other(n_values);
  run(n_threads + 1, other);
  const std::vector<double> seconds = run(n_threads, out);
  SLUICE_CHECK(out == other);
  // Scores and values, a multiplication and an addition each.
  const double n_seen = (n_context - (n_rows - 1) / 2.0) * n_rows;
  const double gflop = 4e-9 * n_seen * kHeads * kHeadDim;
  std::printf("context %5d rows %4d threads %d  %8.1f us  %6.2f GFLOP/s  [%.2f, %.2f]\n", n_context,
              n_rows, n_threads, seconds[kRounds / 2] * 1e6, gflop / seconds[kRounds / 2],
              gflop / seconds.back(), gflop / seconds.front());
}

}  // namespace
}  // namespace sluice::ops::gqa_attention

int main() {
  for (const int32_t n_threads : {1, 2}) {
    for (const int32_t n_context : {64, 512, 4096}) {
      sluice::ops::gqa_attention::Bench(n_context, 1, n_threads);
    }
    sluice::ops::gqa_attention::Bench(512, 512, n_threads);
    sluice::ops::gqa_attention::Bench(4096, 256, n_threads);
  }
  return 0;
}
