#include "tensor/thread_team.h"

#include <atomic>
#include <thread>
#include <vector>

#include "base/check.h"

namespace sluice {
namespace {

// A fork follows the last join within microseconds while a step runs: spinning that long is cheaper
// than a wake-up (spec cpu-kernels.md §0, 5). Counted in looks, not in time.
constexpr int kSpins = 1'000;

void Pause() { __builtin_ia32_pause(); }

}  // namespace

struct ThreadTeam::State {
  // Written by the caller before `round` moves, read by workers after.
  int64_t n_items = 0;
  RawWork work = nullptr;
  const void* context = nullptr;
  bool ending = false;

  std::atomic<uint32_t> round{0};
  std::atomic<int32_t> n_busy{0};
  std::vector<std::thread> threads;

  void Serve(int32_t worker, int32_t n_workers) noexcept;
  void Part(int32_t worker, int32_t n_workers) const {
    const int64_t begin = n_items * worker / n_workers;
    const int64_t end = n_items * (worker + 1) / n_workers;
    if (begin < end) work(context, begin, end, worker);
  }
};

void ThreadTeam::State::Serve(int32_t worker, int32_t n_workers) noexcept {
  uint32_t seen = 0;
  while (true) {
    for (int i = 0; i < kSpins && round.load(std::memory_order_acquire) == seen; ++i) Pause();
    round.wait(seen, std::memory_order_acquire);
    ++seen;
    if (ending) return;
    Part(worker, n_workers);
    if (n_busy.fetch_sub(1, std::memory_order_acq_rel) == 1) n_busy.notify_one();
  }
}

ThreadTeam::ThreadTeam(int32_t n_workers)
    : n_workers_(n_workers), state_(std::make_unique<State>()) {
  SLUICE_CHECK(n_workers >= 1);
  for (int32_t worker = 1; worker < n_workers; ++worker) {
    state_->threads.emplace_back([this, worker] { state_->Serve(worker, n_workers_); });
  }
}

ThreadTeam::~ThreadTeam() {
  state_->ending = true;
  state_->round.fetch_add(1, std::memory_order_release);
  state_->round.notify_all();
  for (std::thread& thread : state_->threads) thread.join();
}

void ThreadTeam::RunRaw(int64_t n_items, RawWork work, const void* context) {
  if (n_items <= 0) return;
  State& state = *state_;
  if (n_workers_ == 1 || n_items == 1) {
    work(context, 0, n_items, 0);
    return;
  }
  state.n_items = n_items;
  state.work = work;
  state.context = context;
  state.n_busy.store(n_workers_ - 1, std::memory_order_relaxed);
  state.round.fetch_add(1, std::memory_order_release);
  state.round.notify_all();
  state.Part(0, n_workers_);
  for (int i = 0; i < kSpins && state.n_busy.load(std::memory_order_acquire) != 0; ++i) Pause();
  for (int32_t left = state.n_busy.load(std::memory_order_acquire); left != 0;
       left = state.n_busy.load(std::memory_order_acquire)) {
    state.n_busy.wait(left, std::memory_order_acquire);
  }
}

}  // namespace sluice
