#include "tensor/thread_team.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace sluice {
namespace {

TEST(ThreadTeam, EveryItemRunsOnceWithAnyNumberOfWorkers) {
  for (int32_t n_workers = 1; n_workers <= 5; ++n_workers) {
    ThreadTeam team(n_workers);
    EXPECT_EQ(team.n_workers(), n_workers);
    for (int64_t n_items = 0; n_items <= 20; ++n_items) {
      std::vector<std::atomic<int>> n_runs(static_cast<size_t>(n_items));
      team.Run(n_items, [&](int64_t begin, int64_t end, int32_t worker) {
        EXPECT_GE(worker, 0);
        EXPECT_LT(worker, n_workers);
        for (int64_t item = begin; item < end; ++item) ++n_runs[static_cast<size_t>(item)];
      });
      for (const std::atomic<int>& n : n_runs) EXPECT_EQ(n.load(), 1);
    }
  }
}

// Whoever takes the first item of worker 1 keeps it until all others are done, the rest of that
// worker's among them.
TEST(ThreadTeam, AWorkerThatIsHeldUpHoldsUpOnlyThePieceItHas) {
  for (const int32_t n_workers : {2, 3}) {
    ThreadTeam team(n_workers);
    const int64_t n_items = 8 * n_workers;
    for (int round = 0; round < 20; ++round) {
      std::atomic<int64_t> n_done{0};
      team.Run(n_items, [&](int64_t begin, int64_t end, int32_t) {
        if (begin == 8) {
          while (n_done.load() < n_items - (end - begin)) std::this_thread::yield();
        }
        n_done += end - begin;
      });
      EXPECT_EQ(n_done.load(), n_items);
    }
  }
}

TEST(ThreadTeam, AWorkerRunsOnePieceAtATime) {
  ThreadTeam team(4);
  std::vector<std::atomic<int>> n_inside(4);
  for (int round = 0; round < 200; ++round) {
    team.Run(64, [&](int64_t, int64_t, int32_t worker) {
      EXPECT_EQ(n_inside[static_cast<size_t>(worker)].fetch_add(1), 0);
      n_inside[static_cast<size_t>(worker)].fetch_sub(1);
    });
  }
}

TEST(ThreadTeam, TheCallerSeesWhatAllWorkersWrote) {
  ThreadTeam team(4);
  std::vector<int64_t> values(1000);  // plain memory: a race would be one for the thread sanitizer
  for (int64_t round = 1; round <= 300; ++round) {
    team.Run(1000, [&](int64_t begin, int64_t end, int32_t) {
      for (int64_t item = begin; item < end; ++item) values[static_cast<size_t>(item)] += round;
    });
  }
  for (const int64_t value : values) ASSERT_EQ(value, 300 * 301 / 2);
}

TEST(ThreadTeam, WorkersThatSleptWakeUpAgain) {
  ThreadTeam team(2);
  for (int round = 0; round < 5; ++round) {
    std::atomic<int> n_done{0};
    std::atomic<int> n_steps{0};
    team.Run(2, [&](int64_t, int64_t, int32_t worker) {
      // Longer than the other one spins before it sleeps.
      while (worker == 0 && n_steps.fetch_add(1) < 3'000'000) {
      }
      ++n_done;
    });
    EXPECT_EQ(n_done.load(), 2);
  }
}

TEST(ThreadTeam, EndsWithoutEverHavingRun) { ThreadTeam team(3); }

}  // namespace
}  // namespace sluice
