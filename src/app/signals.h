// SignalThread: turns signals into calls on the server. SIGTERM and SIGINT drain it, the second one
// stops it at once; SIGHUP reloads the keys.
//
// A thread of its own waits for them (sigwait), so nothing runs in a signal handler and no wait is
// interrupted.

#pragma once

#include <memory>

#include "serve/server.h"

namespace sluice::app {

// Before any thread is started: threads inherit what is blocked. SIGPIPE is ignored for good.
void BlockSignals();

class SignalThread {
 public:
  // `server` outlives it.
  explicit SignalThread(serve::Server& server);
  ~SignalThread();
  SignalThread(const SignalThread&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sluice::app
