// What the machine can do at best, measured between the runs of a bench, and the share of it that a
// run reaches. Speeds of a shared machine change within seconds: only what was measured in one
// round is compared (spec cpu-kernels.md §2). For the benches of operators; used by one thread.

#pragma once

#include <immintrin.h>
#include <sys/mman.h>  // tidy: allow, places weights of a bench as a server has them

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <vector>

#include "base/check.h"
#include "tensor/isa.h"
#include "tensor/thread_team.h"

namespace sluice::harness {

// Two clocks. The wall's is what a user sees, on a quiet machine. That of the processors counts
// only while this process runs, so that shares survive other load on the cores (waiting for the
// other threads of a team is then not counted either).
struct Times {
  double wall = 0;
  double processor = 0;  // of all threads together
};

inline Times TimesNow() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  timespec busy{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &busy);
  return {.wall = std::chrono::duration<double>(now).count(),
          .processor = static_cast<double>(busy.tv_sec) + 1e-9 * static_cast<double>(busy.tv_nsec)};
}

// Amounts per second, 10^9: of the wall, and of the processors of n_threads.
struct Rate {
  double wall = 0;
  double busy = 0;
};

template <typename Run>
Rate RateOf(const ThreadTeam& team, double amount, const Run& run) {
  const Times start = TimesNow();
  run();
  const Times end = TimesNow();
  return {.wall = 1e-9 * amount / (end.wall - start.wall),
          .busy = 1e-9 * amount * team.n_workers() / (end.processor - start.processor)};
}

inline double MedianOf(std::vector<double> values) {
  SLUICE_CHECK(!values.empty());
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Memory on huge pages, as a server has its weights; zeros.
class BenchMemory {
 public:
  explicit BenchMemory(int64_t n_bytes) : n_bytes_(n_bytes + kHugePage) {
    constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    const auto room = static_cast<size_t>(n_bytes_);
    mapped_ = mmap(nullptr, room, PROT_READ | PROT_WRITE, kFlags, -1, 0);
    SLUICE_CHECK(mapped_ != MAP_FAILED);
    // tidy: allow, as above
    static_cast<void>(madvise(mapped_, room, MADV_HUGEPAGE));
  }
  ~BenchMemory() { munmap(mapped_, static_cast<size_t>(n_bytes_)); }
  BenchMemory(const BenchMemory&) = delete;
  BenchMemory& operator=(const BenchMemory&) = delete;

  std::byte* data() const {
    const auto address = reinterpret_cast<uintptr_t>(mapped_);
    return static_cast<std::byte*>(mapped_) + (kHugePage - address % kHugePage) % kHugePage;
  }

 private:
  static constexpr int64_t kHugePage = 2 << 20;
  const int64_t n_bytes_;
  void* mapped_ = nullptr;
};

// Every byte of n once, n a multiple of 512. Loads of 16 bytes reach two thirds of it (Zen 5), a
// prefetch of 1 KiB ahead, or none, 7 to 10 % less than one of 8.
__attribute__((target("avx512f"))) inline void ReadAll(const std::byte* bytes, int64_t n) {
  __m512i seen[8] = {};
  for (int64_t at = 0; at < n; at += 512) {
    for (int i = 0; i < 8; ++i) {
      const std::byte* line = bytes + at + i * 64;
      _mm_prefetch(line + 8192, _MM_HINT_T0);
      seen[i] = _mm512_or_si512(seen[i], _mm512_load_si512(line));
    }
  }
  for (const __m512i& value : seen) asm volatile("" ::"v"(value));
}

// 24 sums of 16 lanes in registers: twice what hides 6 cycles of latency at two a cycle.
inline constexpr int64_t kBf16Loops = 20'000;
inline constexpr double kBf16Operations = 64.0 * 24 * kBf16Loops;
__attribute__((target("avx512f"))) inline void AddBf16Products() {
  int64_t left = kBf16Loops;
  asm volatile(
      "1:\n"
      ".irp sum,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23\n"
      "vdpbf16ps %%zmm30, %%zmm31, %%zmm\\sum\n"
      ".endr\n"
      "dec %0\n"
      "jnz 1b\n"
      : "+r"(left)
      :
      : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",
        "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "xmm16", "xmm17", "xmm18", "xmm19",
        "xmm20", "xmm21", "xmm22", "xmm23");
}

// Bytes at which the team's threads read memory, each its half (third, ...) of it from front to
// back, as they read weights. 0: no AVX-512, no limit.
inline Rate ReadRate(ThreadTeam& team, const std::byte* memory, int64_t n_bytes) {
  if (!IsasOfMachine().Has(Isa::kAvx512)) return {};
  constexpr int64_t kPiece = 4096;
  const int64_t n_pieces = n_bytes / kPiece;
  return RateOf(team, static_cast<double>(n_pieces * kPiece), [&] {
    team.Run(n_pieces, [&](int64_t begin, int64_t end, int32_t) {
      ReadAll(memory + begin * kPiece, (end - begin) * kPiece);
    });
  });
}

// Operations of VDPBF16PS without loads, all threads of the team together; 0 where the machine has
// no such instruction. About 15 ms.
inline Rate Bf16Rate(ThreadTeam& team) {
  if (!IsasOfMachine().Has(Isa::kAvx512Bf16)) return {};
  constexpr int kRepeats = 50;
  const double operations = kRepeats * kBf16Operations * team.n_workers();
  return RateOf(team, operations, [&] {
    team.Run(team.n_workers(), [&](int64_t, int64_t, int32_t) {
      for (int i = 0; i < kRepeats; ++i) AddBf16Products();
    });
  });
}

// What one run does.
struct Work {
  double bytes = 0;       // of weights, from memory
  double operations = 0;  // floating point: a multiplication and an addition are two
};

// Medians over the rounds. A share is a median of the shares of single rounds; 0 where there is no
// such limit.
struct Measured {
  double gbps = 0;  // by the wall's clock
  double gops = 0;
  Rate of_read;  // shares by either clock
  Rate of_bf16;
};

inline double Share(double value, double before, double after) {
  return before > 0 ? 2 * value / (before + after) : 0;
}

// Rounds of limits, run, run, limits. memory: what the read limit reads, best the weights
// themselves; larger than all caches.
template <typename RunOnce>
Measured MeasureShares(ThreadTeam& team,
                       const std::byte* memory,
                       int64_t memory_bytes,
                       int n_rounds,
                       const Work& work,
                       const RunOnce& run_once) {
  std::vector<double> gops;
  std::vector<double> shares[4];
  run_once();
  for (int round = 0; round < n_rounds; ++round) {
    const Rate read_before = ReadRate(team, memory, memory_bytes);
    const Rate bf16_before = Bf16Rate(team);
    const Rate ours = RateOf(team, 2 * work.operations, [&] {
      run_once();
      run_once();
    });
    const Rate bf16_after = Bf16Rate(team);
    const Rate read_after = ReadRate(team, memory, memory_bytes);
    const double bytes_each = work.bytes / work.operations;
    gops.push_back(ours.wall);
    shares[0].push_back(Share(ours.wall * bytes_each, read_before.wall, read_after.wall));
    shares[1].push_back(Share(ours.busy * bytes_each, read_before.busy, read_after.busy));
    shares[2].push_back(Share(ours.wall, bf16_before.wall, bf16_after.wall));
    shares[3].push_back(Share(ours.busy, bf16_before.busy, bf16_after.busy));
  }
  return {.gbps = MedianOf(gops) * work.bytes / work.operations,
          .gops = MedianOf(gops),
          .of_read = {.wall = MedianOf(shares[0]), .busy = MedianOf(shares[1])},
          .of_bf16 = {.wall = MedianOf(shares[2]), .busy = MedianOf(shares[3])}};
}

}  // namespace sluice::harness
