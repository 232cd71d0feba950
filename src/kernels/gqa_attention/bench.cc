// Speed of op gqa_attention at the shape of SmolLM2-135M: one row behind a long text in each of 30
// layers, as a decoded token needs them, and a piece of a prompt. Verified against `ref`. Shares of
// the machine's limits in the same rounds (harness/limits_bench_impl.h): of reading keys and values
// from memory, and of the bf16 peak for what rows see.

#include <cstdio>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "kernels/gqa_attention/op.h"
#include "kernels/harness/limits_bench_impl.h"

namespace sluice::ops::gqa_attention {
namespace {

constexpr int32_t kHeads = 9, kKvHeads = 3, kHeadDim = 64;
constexpr int32_t kLayers = 30;
constexpr int32_t kRowBytes = kKvHeads * kHeadDim * 2;
constexpr int32_t kBlock = 64;
constexpr int kRounds = 9;

// Keys and values of all layers, about +-1.
struct Text {
  explicit Text(int32_t n_context)
      : layer_bytes(2LL * kRowBytes * ((n_context + kBlock - 1) / kBlock * kBlock)),
        memory(kLayers * layer_bytes) {
    auto* values = reinterpret_cast<Bf16*>(memory.data());
    uint32_t state = 1;
    for (int64_t i = 0; i < kLayers * layer_bytes / 2; ++i) {
      state = state * 1664525U + 1013904223U;
      values[i] = ToBf16(static_cast<float>(static_cast<int32_t>(state >> 8) % 1000) / 500 - 1);
    }
    for (int32_t i = 0; i * kBlock < n_context; ++i) blocks.emplace_back(i);
  }
  PagedRows Pages(int64_t at) const {
    return {.base = reinterpret_cast<const uint8_t*>(memory.data()) + at,
            .blocks = blocks.data(),
            .block_bytes = int64_t{kRowBytes} * kBlock,
            .rows_per_block = kBlock,
            .row_bytes = kRowBytes};
  }
  Sequence Layer(int32_t layer, int64_t n_rows) const {
    return {.keys = Pages(layer * layer_bytes),
            .values = Pages(layer * layer_bytes + layer_bytes / 2),
            .n_rows = n_rows};
  }

  int64_t layer_bytes;
  harness::BenchMemory memory;
  std::vector<BlockId> blocks;
};

struct Case {
  int32_t n_context = 0;
  int32_t n_rows = 0;  // the last ones
  Isa isa = Isa::kRef;
  int32_t n_threads = 1;
};

void Bench(const Case& c) {
  const Text text(c.n_context);
  std::vector<float> q(static_cast<size_t>(c.n_rows) * kHeads * kHeadDim);
  for (size_t i = 0; i < q.size(); ++i) q[i] = static_cast<float>(i * 37 % 61) / 30.0F - 1.0F;
  std::vector<int32_t> positions;
  for (int32_t i = 0; i < c.n_rows; ++i) positions.push_back(c.n_context - c.n_rows + i);
  std::vector<Bf16> out(q.size()), want(q.size());
  ThreadTeam team(c.n_threads);
  Stream stream{.team = team, .isas = {.all = IsasOfMachine().UpTo(c.isa), .of_op = {}}};
  Stream plain{.team = team, .isas = {.all = {Isa::kRef}, .of_op = {}}};
  const auto run = [&](int32_t layer, Stream& on, std::vector<Bf16>& to) {
    const Sequence sequence = text.Layer(layer, c.n_rows);
    gqa_attention::Run({.q = q.data(),
                        .positions = positions.data(),
                        .sequences = &sequence,
                        .n_sequences = 1,
                        .n_heads = kHeads,
                        .n_kv_heads = kKvHeads,
                        .head_dim = kHeadDim,
                        .scale = 0.125F,
                        .out = to.data()},
                       on);
  };
  run(kLayers - 1, stream, out);
  run(kLayers - 1, plain, want);
  SLUICE_CHECK(out == want);
  const double n_seen = (c.n_context - (c.n_rows - 1) / 2.0) * c.n_rows;
  const harness::Work work{.bytes = 2.0 * kLayers * c.n_context * kRowBytes,
                           .operations = 4.0 * kLayers * n_seen * kHeads * kHeadDim};
  const harness::Measured got = harness::MeasureShares(
      team, text.memory.data(), kLayers * text.layer_bytes, kRounds, work, [&] {
        for (int32_t layer = 0; layer < kLayers; ++layer) run(layer, stream, out);
      });
  std::printf(
      "%-10s context %5d rows %4d threads %d  %8.3f ms  %6.1f GB/s (%.2f of reading, busy %.2f)  "
      "%6.1f GFLOP/s (%.2f of bf16, busy %.2f)\n",
      std::string(NameOf(c.isa)).c_str(), c.n_context, c.n_rows, c.n_threads,
      work.operations / got.gops * 1e-6, got.gbps, got.of_read.wall, got.of_read.busy, got.gops,
      got.of_bf16.wall, got.of_bf16.busy);
}

}  // namespace
}  // namespace sluice::ops::gqa_attention

int main() {
  using namespace sluice;
  for (const Isa isa : {Isa::kAvx512Bf16, Isa::kAvx2}) {
    if (!IsasOfMachine().Has(isa)) continue;
    for (const int32_t n_threads : {1, 2}) {
      for (const int32_t n_context : {64, 512, 4096}) {
        ops::gqa_attention::Bench(
            {.n_context = n_context, .n_rows = 1, .isa = isa, .n_threads = n_threads});
      }
      for (const auto& [n_context, n_rows] : {std::pair{512, 512}, {4096, 256}}) {
        ops::gqa_attention::Bench(
            {.n_context = n_context, .n_rows = n_rows, .isa = isa, .n_threads = n_threads});
      }
    }
  }
  return 0;
}
