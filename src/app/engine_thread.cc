#include "app/engine_thread.h"

#include <algorithm>
#include <optional>
#include <thread>
#include <utility>

#include "app/load_line.h"
#include "base/log.h"
#include "env/posix/terminal.h"

namespace sluice::app {
namespace {

// How often the log says how far loading is when there is no terminal to say it on.
constexpr Duration kLogPeriod = Duration::Seconds(10);

// Says how far a model is on its way. Owned by the engine thread.
class LoadTeller {
 public:
  void Tell(const wire::LoadProgress& loading) {
    n_bytes_ = loading.total_bytes;
    if (is_terminal_) return line_.Show(loading);
    if (loading.elapsed - logged_at_ < kLogPeriod) return;
    logged_at_ = loading.elapsed;
    Log(LogLevel::kInfo, LoadText(loading));
  }
  void Done(Duration took) {
    line_.Clear();
    Log(LogLevel::kInfo, "the model is loaded",
        {{"bytes_read_and_packed", n_bytes_}, {"took", took}});
  }
  void Failed() { line_.Clear(); }

 private:
  const bool is_terminal_ = StderrIsTerminal();
  LoadLine line_;
  Duration logged_at_;
  int64_t n_bytes_ = 0;
};

Status FailureOf(const wire::ScriptedService&) { return Status::Ok(); }
Status FailureOf(const engine::Engine& engine) { return engine.failure(); }

}  // namespace

struct EngineThread::State {
  State(Service& given_service,
        cluster::Router* given_router,
        EventBell& given_bell,
        const Clock& given_clock,
        const Bells& given_bells)
      : service(given_service),
        router(given_router),
        bell(given_bell),
        clock(given_clock),
        bells(given_bells),
        thread([this] { Run(); }) {}

  void Run() noexcept {
    std::visit(
        [this](auto& its) {
          Status loaded = Load(its);
          loaded.ok() ? bells.loaded.Ring() : Fail(std::move(loaded));
          while (!stopping.load(std::memory_order_acquire)) {
            const Time due = its.Step(clock.Now());
            // Behind it: what this step has ended leaves a place, which the next one fills.
            const Time router_due = router != nullptr ? router->Step(clock.Now()) : Time::Max();
            bell.Wait(std::min(due, router_due), clock);
          }
          if (router != nullptr) router->CancelAll();
          its.CancelAll();
          while (!its.idle()) bell.Wait(its.Step(clock.Now()), clock);
        },
        service);
  }

  // Until requests are taken.
  Status Load(auto& its) {
    if (!its.Load().loading) return Status::Ok();
    LoadTeller teller;
    const Time begin = clock.Now();
    while (!stopping.load(std::memory_order_acquire)) {
      its.Step(clock.Now());
      if (Status failure = FailureOf(its); !failure.ok()) {
        teller.Failed();
        return failure;
      }
      const std::optional<wire::LoadProgress> loading = its.Load().loading;
      if (!loading) {
        teller.Done(clock.Now() - begin);
        break;
      }
      teller.Tell(*loading);
    }
    return Status::Ok();
  }

  void Fail(Status status) {
    failure = std::move(status);
    has_failed.store(true, std::memory_order_release);
    bells.failed.Ring();
  }

  Service& service;
  cluster::Router* const router;
  EventBell& bell;
  const Clock& clock;
  const Bells bells;
  std::atomic<bool> stopping{false};
  std::atomic<bool> has_failed{false};
  Status failure;      // constant once has_failed
  std::thread thread;  // last: it uses the others
};

EngineThread::EngineThread(Service& service,
                           cluster::Router* router,
                           EventBell& bell,
                           const Clock& clock,
                           const Bells& bells)
    : state_(std::make_unique<State>(service, router, bell, clock, bells)) {}

EngineThread::~EngineThread() {
  state_->stopping.store(true, std::memory_order_release);
  state_->bell.Ring();
  state_->thread.join();
}

Status EngineThread::failure() const {
  return state_->has_failed.load(std::memory_order_acquire) ? state_->failure : Status::Ok();
}

wire::TokenService& AsTokenService(EngineThread::Service& service) {
  return std::visit([](auto& its) -> wire::TokenService& { return its; }, service);
}

}  // namespace sluice::app
