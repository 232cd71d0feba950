// Wiring: the parts of a serving process, built and joined. The only file that knows all of them.
//
//   net thread: Server, Router     prep threads: WorkPool     engine thread: drives the token
//   service by Step(now)
//
// Owned by the main thread. Destroyed in reverse order: first the engine thread ends what it holds,
// then the server goes, then what it used.

#pragma once

#include <memory>

#include "app/app_options.h"
#include "base/result.h"
#include "env/env.h"
#include "serve/server.h"

namespace sluice::app {

class Wiring {
 public:
  // Reads the script, binds the ports, starts all threads but the net thread, which is whoever
  // calls server().Run().
  static Result<std::unique_ptr<Wiring>> Build(const Env& env, const AppOptions& options);
  ~Wiring();

  serve::Server& server();

 private:
  struct Parts;
  explicit Wiring(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace sluice::app
