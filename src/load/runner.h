// Runner: drives the load from one thread over many connections, until the schedule is over and
// every request has ended, or somebody stops it. Owned by the thread that runs it; Stop may be
// called from any.

#pragma once

#include <memory>

#include "env/clock.h"
#include "load/options.h"
#include "load/results.h"
#include "load/workload.h"

namespace sluice::load {

struct Progress {
  Duration elapsed;
  int64_t n_sent = 0;
  int64_t n_done = 0;
  int64_t n_refused = 0;
  int64_t n_failed = 0;
  int64_t n_in_flight = 0;
  int64_t n_waiting = 0;
};

class Runner {
 public:
  struct Params {
    const LoadOptions& options;
    const Workload& workload;
    const Clock& clock;
    void (*show)(const Progress& progress) = nullptr;  // called now and then
  };
  // Looks the host up. What params names must outlive the runner.
  static Result<std::unique_ptr<Runner>> Open(const Params& params);
  ~Runner();

  // Once. What was measured, also when it was stopped.
  Results Run();

  // Ends the run: nothing more is sent, and answers that run are given up. May come before Run.
  void Stop();

 private:
  struct State;
  explicit Runner(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace sluice::load
