// ThreadTeam: a fixed number of threads that run one function over a range of items and meet again.
// The caller is worker 0. Owned by the thread that calls Run; Run calls do not nest.
//
// 1. Items are split into one contiguous range per worker, in a few pieces; whoever has done its
// own
//    takes pieces of others. Nobody waits for a worker that has not begun: one that the system lets
//    wait costs its share of speed, not the whole. Results may not depend on who does what: a sum
//    is never split over items.
// 2. After Run returns no worker touches anything it was given.

#pragma once

#include <cstdint>
#include <memory>

namespace sluice {

class ThreadTeam {
 public:
  explicit ThreadTeam(int32_t n_workers);  // at least 1
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  int32_t n_workers() const { return n_workers_; }

  // work(item_begin, item_end, worker) with 0 <= worker < n_workers(), each item once; several
  // times for one worker, at one time only once. Not empty.
  template <typename Work>
  void Run(int64_t n_items, const Work& work) {
    RunRaw(
        n_items,
        [](const void* context, int64_t begin, int64_t end, int32_t worker) {
          (*static_cast<const Work*>(context))(begin, end, worker);
        },
        &work);
  }

 private:
  using RawWork = void (*)(const void* context, int64_t begin, int64_t end, int32_t worker);
  void RunRaw(int64_t n_items, RawWork work, const void* context);

  struct State;
  const int32_t n_workers_;
  std::unique_ptr<State> state_;
};

}  // namespace sluice
