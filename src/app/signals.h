// SignalThread: turns signals into calls. SIGTERM and SIGINT drain a server, the second one stops
// it at once, and SIGHUP reloads its keys; each of them stops a load.
//
// A thread of its own waits for them (sigwait), so nothing runs in a signal handler and no wait is
// interrupted. A command without a server takes Ctrl-C with an InterruptScope.

#pragma once

#include <memory>

#include "env/posix/event_bell.h"
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

// Ctrl-C ends nothing from now on. For a talk in a terminal, which is asked for by keys: one that
// comes as an answer ends, before the next line is read, must not end the program.
void IgnoreInterrupts();

// While it lives, Ctrl-C rings the bell instead of what it did before. One at a time; the bell
// outlives it.
class InterruptScope {
 public:
  explicit InterruptScope(EventBell& bell);
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;

 private:
  void (*const before_)(int);
};
// Whether there was one since the scope began or since this was last asked.
bool TakeInterrupt();

}  // namespace sluice::app
