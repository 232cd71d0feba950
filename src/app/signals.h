// SignalThread: turns signals into calls. SIGTERM and SIGINT drain a server, the second one stops
// it at once, and SIGHUP reloads its keys; each of them stops a load.
//
// A thread of its own waits for them (sigwait), so nothing runs in a signal handler and no wait is
// interrupted.

#pragma once

#include <memory>

#include "load/runner.h"
#include "serve/server.h"

namespace sluice::app {

// Before any thread is started: threads inherit what is blocked. SIGPIPE is ignored for good.
void BlockSignals();

class SignalThread {
 public:
  // What is called outlives it.
  explicit SignalThread(serve::Server& server);
  explicit SignalThread(load::Runner& load);
  ~SignalThread();
  SignalThread(const SignalThread&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sluice::app
