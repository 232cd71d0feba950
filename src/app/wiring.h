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
  // Reads the script or looks at the model's folder, binds the ports, starts all threads but the
  // net thread, which is whoever calls server().Run(). A model is loaded from then on, by the
  // engine thread.
  static Result<std::unique_ptr<Wiring>> Build(const Env& env, const AppOptions& options);
  ~Wiring();

  serve::Server& server();
  // Tokens of one request: what was asked for, or what the model has.
  int32_t n_context() const;
  // Why the server was stopped although nobody asked for it: the model could not be loaded.
  Status failure() const;

 private:
  struct Parts;
  explicit Wiring(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace sluice::app
