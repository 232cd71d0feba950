// EngineThread: the thread of one token service: steps it when it is due and when its bell rings.
// While a model loads it says how far that is.
//
// Owned by the main thread; failure() is for any.

#pragma once

#include <atomic>
#include <memory>
#include <variant>

#include "base/bell.h"
#include "base/status.h"
#include "cluster/router.h"
#include "engine/engine.h"
#include "env/clock.h"
#include "env/posix/event_bell.h"
#include "wire/scripted_service.h"

namespace sluice::app {

class EngineThread {
 public:
  using Service = std::variant<wire::ScriptedService, engine::Engine>;

  // Rung by the thread, each at most once.
  struct Bells {
    Bell loaded;  // requests are taken
    Bell failed;  // the model could not be loaded: failure() says why
  };

  // All outlive the thread. `router`, if there is one, is stepped with the service.
  EngineThread(Service& service,
               cluster::Router* router,
               EventBell& bell,
               const Clock& clock,
               const Bells& bells);
  EngineThread(const EngineThread&) = delete;
  // Every request ends with a terminal event before the thread does.
  ~EngineThread();

  // OK unless the model could not be loaded.
  Status failure() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

wire::TokenService& AsTokenService(EngineThread::Service& service);

}  // namespace sluice::app
