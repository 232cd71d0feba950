#include "base/work_pool.h"

#include <thread>
#include <vector>

#include "base/check.h"
#include "base/mutex.h"

namespace sluice {

struct WorkPool::State {
  explicit State(int32_t n) : capacity(n), ring(static_cast<size_t>(n)) {}

  void Run();

  const int32_t capacity;
  std::vector<std::thread> threads;  // constant after construction

  Mutex mu;
  CondVar has_work;
  std::vector<Work*> ring
      SLUICE_GUARDED_BY(mu);  // waiting jobs: [first, first + n_waiting) modulo capacity
  int32_t first SLUICE_GUARDED_BY(mu) = 0;
  int32_t n_waiting SLUICE_GUARDED_BY(mu) = 0;
  bool closed SLUICE_GUARDED_BY(mu) = false;
};

void WorkPool::State::Run() {
  while (true) {
    Work* work;
    {
      MutexLock lock(mu);
      while (n_waiting == 0 && !closed) has_work.Wait(mu);
      if (n_waiting == 0) return;
      work = ring[static_cast<size_t>(first)];
      first = (first + 1) % capacity;
      --n_waiting;
    }
    work->run(*work);
  }
}

WorkPool::WorkPool(int32_t n_threads, int32_t capacity) {
  SLUICE_CHECK(n_threads >= 0 && capacity > 0);
  state_ = std::make_unique<State>(capacity);
  for (int32_t i = 0; i < n_threads; ++i) {
    state_->threads.emplace_back([state = state_.get()] {
      try {
        state->Run();
      } catch (...) {
        SLUICE_CHECK(!"a job threw");
      }
    });
  }
}

WorkPool::~WorkPool() {
  {
    MutexLock lock(state_->mu);
    state_->closed = true;
  }
  state_->has_work.NotifyAll();
  for (std::thread& thread : state_->threads) thread.join();
}

bool WorkPool::TryPost(Work& work) {
  SLUICE_CHECK(work.run != nullptr);
  if (state_->threads.empty()) {
    work.run(work);
    return true;
  }
  {
    MutexLock lock(state_->mu);
    SLUICE_CHECK(!state_->closed);
    if (state_->n_waiting == state_->capacity) return false;
    int32_t last = (state_->first + state_->n_waiting) % state_->capacity;
    state_->ring[static_cast<size_t>(last)] = &work;
    ++state_->n_waiting;
  }
  state_->has_work.NotifyOne();
  return true;
}

}  // namespace sluice
