// SignalThread: turns signals into calls on the server. SIGTERM and SIGINT drain it, the second one
// stops it at once; SIGHUP reloads the keys.
//
// A thread of its own waits for them (sigwait), so nothing runs in a signal handler and no wait is
// interrupted. A command without a server takes Ctrl-C with an InterruptScope.

#pragma once

#include <memory>

#include "env/posix/event_bell.h"
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

// While it lives, Ctrl-C rings the bell instead of ending the process. One at a time; the bell
// outlives it.
class InterruptScope {
 public:
  explicit InterruptScope(EventBell& bell);
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
};
// Whether there was one since the scope began or since this was last asked.
bool TakeInterrupt();

}  // namespace sluice::app
