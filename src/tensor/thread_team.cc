#include "tensor/thread_team.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>
#include <vector>

#include "base/check.h"

namespace sluice {
namespace {

// A fork follows the last join within microseconds while a step runs: spinning that long is cheaper
// than a wake-up (spec cpu-kernels.md §0, 5). Counted in looks, not in time.
constexpr int kSpins = 1'000;
// Of a worker's range: others take what it has not begun. More would cut streams of memory short.
constexpr int64_t kPieces = 4;

void Pause() { __builtin_ia32_pause(); }

// Pieces [front, back) of one worker's range that nobody took, and the round they belong to.
struct Pieces {
  uint32_t round = 0;
  uint16_t front = 0;
  uint16_t back = 0;
};
static_assert(sizeof(Pieces) == sizeof(uint64_t));

struct alignas(64) Range {
  std::atomic<Pieces> pieces{Pieces()};
};
static_assert(std::atomic<Pieces>::is_always_lock_free);

enum class End : uint8_t { kFront, kBack };

// The next piece of a round, from one end.
std::optional<int64_t> Take(Range& range, uint32_t round, End end) {
  Pieces pieces = range.pieces.load(std::memory_order_acquire);
  while (pieces.round == round && pieces.front < pieces.back) {
    Pieces left = pieces;
    const int64_t taken = end == End::kFront ? left.front++ : --left.back;
    if (range.pieces.compare_exchange_weak(pieces, left, std::memory_order_acq_rel,
                                           std::memory_order_acquire)) {
      return taken;
    }
  }
  return std::nullopt;
}

}  // namespace

struct ThreadTeam::State {
  explicit State(int32_t n) : n_workers(n), ranges(static_cast<size_t>(n)) {}

  const int32_t n_workers;
  // Written by the caller before `round` moves; read by whoever took a piece of that round, which
  // is not over before.
  int64_t n_items = 0;
  RawWork work = nullptr;
  const void* context = nullptr;
  std::atomic<bool> ending{false};  // a worker may still look at it for a round that is over

  std::atomic<uint32_t> round{0};
  std::atomic<int32_t> n_left{0};  // pieces that are not done
  std::vector<Range> ranges;       // of the workers
  std::vector<std::thread> threads;

  int64_t RangeBegin(int64_t worker) const { return n_items * worker / n_workers; }
  void Serve(int32_t worker) noexcept;
  void WorkOn(int32_t worker, uint32_t now);
  void RunPiece(int32_t owner, int64_t piece, int32_t worker);
};

void ThreadTeam::State::Serve(int32_t worker) noexcept {
  uint32_t seen = 0;
  while (true) {
    for (int i = 0; i < kSpins && round.load(std::memory_order_acquire) == seen; ++i) Pause();
    round.wait(seen, std::memory_order_acquire);
    seen = round.load(std::memory_order_acquire);
    if (ending.load(std::memory_order_relaxed)) return;
    WorkOn(worker, seen);
  }
}

// A worker's own pieces, front to back, then those of others, back to front.
void ThreadTeam::State::WorkOn(int32_t worker, uint32_t now) {
  for (int32_t i = 0; i < n_workers; ++i) {
    const int32_t owner = (worker + i) % n_workers;
    Range& range = ranges[static_cast<size_t>(owner)];
    const End end = i == 0 ? End::kFront : End::kBack;
    while (const std::optional<int64_t> piece = Take(range, now, end)) {
      RunPiece(owner, *piece, worker);
    }
  }
}

void ThreadTeam::State::RunPiece(int32_t owner, int64_t piece, int32_t worker) {
  const int64_t begin = RangeBegin(owner);
  const int64_t n = RangeBegin(owner + 1) - begin;
  const int64_t n_pieces = std::min(n, kPieces);
  work(context, begin + n * piece / n_pieces, begin + n * (piece + 1) / n_pieces, worker);
  if (n_left.fetch_sub(1, std::memory_order_acq_rel) == 1) n_left.notify_one();
}

ThreadTeam::ThreadTeam(int32_t n_workers)
    : n_workers_(n_workers), state_(std::make_unique<State>(n_workers)) {
  SLUICE_CHECK(n_workers >= 1);
  for (int32_t worker = 1; worker < n_workers; ++worker) {
    state_->threads.emplace_back([this, worker] { state_->Serve(worker); });
  }
}

ThreadTeam::~ThreadTeam() {
  state_->ending.store(true, std::memory_order_relaxed);
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
  const uint32_t now = state.round.load(std::memory_order_relaxed) + 1;
  int64_t n_pieces = 0;
  for (int32_t worker = 0; worker < n_workers_; ++worker) {
    n_pieces += std::min(state.RangeBegin(worker + 1) - state.RangeBegin(worker), kPieces);
  }
  state.n_left.store(static_cast<int32_t>(n_pieces), std::memory_order_relaxed);
  for (int32_t worker = 0; worker < n_workers_; ++worker) {
    const int64_t n = state.RangeBegin(worker + 1) - state.RangeBegin(worker);
    const auto n_own = static_cast<uint16_t>(std::min(n, kPieces));
    state.ranges[static_cast<size_t>(worker)].pieces.store(
        {.round = now, .front = 0, .back = n_own}, std::memory_order_release);
  }
  state.round.store(now, std::memory_order_release);
  state.round.notify_all();
  state.WorkOn(0, now);
  for (int i = 0; i < kSpins && state.n_left.load(std::memory_order_acquire) != 0; ++i) Pause();
  for (int32_t left = state.n_left.load(std::memory_order_acquire); left != 0;
       left = state.n_left.load(std::memory_order_acquire)) {
    state.n_left.wait(left, std::memory_order_acquire);
  }
}

}  // namespace sluice
