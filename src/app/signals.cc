#include "app/signals.h"

#include <signal.h>

#include <atomic>
#include <thread>

#include "base/check.h"
#include "base/log.h"

namespace sluice::app {
namespace {

// Ends the thread. Nobody else has a use for it, and blocked it can only be taken by sigwait.
constexpr int kEnd = SIGUSR1;

sigset_t Awaited() {
  sigset_t set;
  sigemptyset(&set);
  for (int signal_number : {SIGTERM, SIGINT, SIGHUP, kEnd}) sigaddset(&set, signal_number);
  return set;
}

std::atomic<EventBell*> interrupt_bell{nullptr};
std::atomic<bool> is_interrupted{false};

// Ringing is a store and a write, which a handler may do.
void OnInterrupt(int) {
  is_interrupted.store(true, std::memory_order_release);
  if (EventBell* bell = interrupt_bell.load(std::memory_order_acquire)) bell->Ring();
}

}  // namespace

void BlockSignals() {
  const sigset_t set = Awaited();
  SLUICE_CHECK(pthread_sigmask(SIG_BLOCK, &set, nullptr) == 0);
  signal(SIGPIPE, SIG_IGN);
}

void IgnoreInterrupts() { signal(SIGINT, SIG_IGN); }

InterruptScope::InterruptScope(EventBell& bell) : before_(signal(SIGINT, SIG_IGN)) {
  is_interrupted.store(false);
  SLUICE_CHECK(interrupt_bell.exchange(&bell) == nullptr);
  signal(SIGINT, &OnInterrupt);
}

InterruptScope::~InterruptScope() {
  signal(SIGINT, before_);
  interrupt_bell.store(nullptr);
}

bool TakeInterrupt() { return is_interrupted.exchange(false, std::memory_order_acq_rel); }

struct SignalThread::State {
  State(serve::Server* given_server, load::Runner* given_load)
      : server(given_server), load(given_load), thread([this] { Run(); }) {}
  void Run() noexcept;
  void OnServerSignal(int signal_number);

  serve::Server* const server;  // one of the two
  load::Runner* const load;
  bool draining = false;
  std::atomic<bool> ending{false};
  std::thread thread;  // last: it uses the others
};

SignalThread::SignalThread(serve::Server& server)
    : state_(std::make_unique<State>(&server, nullptr)) {}
SignalThread::SignalThread(load::Runner& load) : state_(std::make_unique<State>(nullptr, &load)) {}

SignalThread::~SignalThread() {
  state_->ending.store(true, std::memory_order_release);
  SLUICE_CHECK(pthread_kill(state_->thread.native_handle(), kEnd) == 0);
  state_->thread.join();
}

void SignalThread::State::Run() noexcept {
  const sigset_t set = Awaited();
  while (true) {
    int signal_number = 0;
    SLUICE_CHECK(sigwait(&set, &signal_number) == 0);
    if (ending.load(std::memory_order_acquire)) return;
    if (signal_number == kEnd) continue;
    load != nullptr ? load->Stop() : OnServerSignal(signal_number);
  }
}

void SignalThread::State::OnServerSignal(int signal_number) {
  if (signal_number == SIGHUP) {
    server->Reload();
  } else if (!draining) {
    draining = true;
    server->Drain();
  } else {
    Log(LogLevel::kWarn, "stopping at once");
    server->Stop();
  }
}

}  // namespace sluice::app
