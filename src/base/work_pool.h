// WorkPool: the prep threads. Runs jobs that are pure functions over their own data, in the order
// of posting.
//
// Thread-safe. Idle threads sleep. With no threads TryPost runs the job before it returns: the
// simulator's mode, in which a job must not post another one without end.

#pragma once

#include <cstdint>
#include <memory>

namespace sluice {

// Embedded in what it works on; lives until `run` was called. `run` may destroy it and must not
// throw.
struct Work {
  void (*run)(Work& self) = nullptr;
};

class WorkPool {
 public:
  // `capacity`: jobs that may wait, besides those that run.
  WorkPool(int32_t n_threads, int32_t capacity);
  // Runs what is queued, then joins. Nobody may post any more.
  ~WorkPool();
  WorkPool(const WorkPool&) = delete;

  // False: full, and `work` will not be run.
  [[nodiscard]] bool TryPost(Work& work);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sluice
