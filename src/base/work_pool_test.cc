#include "base/work_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "base/mutex.h"

namespace sluice {
namespace {

struct CountJob : Work {
  explicit CountJob(std::atomic<int>& c) : count(c) {
    run = [](Work& self) { static_cast<CountJob&>(self).count.fetch_add(1); };
  }
  std::atomic<int>& count;
};

// A job that ends when the test lets it.
struct GateJob : Work {
  GateJob() {
    run = [](Work& self) {
      GateJob& job = static_cast<GateJob&>(self);
      MutexLock lock(job.mu);
      job.started = true;
      job.changed.NotifyAll();
      while (!job.open) job.changed.Wait(job.mu);
    };
  }
  void AwaitStart() {
    MutexLock lock(mu);
    while (!started) changed.Wait(mu);
  }
  void Open() {
    MutexLock lock(mu);
    open = true;
    changed.NotifyAll();
  }

  Mutex mu;
  CondVar changed;
  bool started SLUICE_GUARDED_BY(mu) = false;
  bool open SLUICE_GUARDED_BY(mu) = false;
};

TEST(WorkPool, WithoutThreadsAJobRunsBeforeTryPostReturns) {
  std::atomic<int> count{0};
  WorkPool pool(0, 1);
  CountJob a(count), b(count);
  EXPECT_TRUE(pool.TryPost(a));
  EXPECT_EQ(count, 1);
  EXPECT_TRUE(pool.TryPost(b));
  EXPECT_EQ(count, 2);
}

TEST(WorkPool, RefusesWhatDoesNotFitAndNeverRunsIt) {
  std::atomic<int> count{0};
  GateJob gate;
  CountJob a(count), b(count), refused(count);
  {
    WorkPool pool(1, 2);
    ASSERT_TRUE(pool.TryPost(gate));
    gate.AwaitStart();  // it waits no longer: both places are free
    EXPECT_TRUE(pool.TryPost(a));
    EXPECT_TRUE(pool.TryPost(b));
    EXPECT_FALSE(pool.TryPost(refused));
    gate.Open();
  }
  EXPECT_EQ(count, 2);
}

TEST(WorkPool, RunsInTheOrderOfPosting) {
  static std::vector<int> order;  // written by the one pool thread, read after the join
  order.clear();
  struct NumberedJob : Work {
    int number = 0;
  };
  std::vector<NumberedJob> jobs(100);
  {
    WorkPool pool(1, 100);
    for (int i = 0; i < 100; ++i) {
      jobs[static_cast<size_t>(i)].number = i;
      jobs[static_cast<size_t>(i)].run = [](Work& self) {
        order.push_back(static_cast<NumberedJob&>(self).number);
      };
      ASSERT_TRUE(pool.TryPost(jobs[static_cast<size_t>(i)]));
    }
  }
  ASSERT_EQ(order.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
}

TEST(WorkPool, RunsEveryAcceptedJobOnceUnderManyPosters) {
  struct OnceJob : Work {
    std::atomic<int> n_runs{0};
    bool accepted = false;
  };
  constexpr size_t kJobs = 20'000, kPosters = 4;
  std::vector<OnceJob> jobs(kJobs);
  {
    WorkPool pool(2, 64);
    std::vector<std::thread> posters;
    for (size_t p = 0; p < kPosters; ++p) {
      posters.emplace_back([&, p] {
        for (size_t i = p; i < kJobs; i += kPosters) {
          jobs[i].run = [](Work& self) { static_cast<OnceJob&>(self).n_runs.fetch_add(1); };
          jobs[i].accepted = pool.TryPost(jobs[i]);
        }
      });
    }
    for (std::thread& poster : posters) poster.join();
  }
  int n_accepted = 0;
  for (OnceJob& job : jobs) {
    EXPECT_EQ(job.n_runs, job.accepted ? 1 : 0);
    n_accepted += job.accepted ? 1 : 0;
  }
  EXPECT_GE(n_accepted, 64);  // the queue's capacity, however slow the workers are
}

}  // namespace
}  // namespace sluice
