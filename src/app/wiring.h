// Wiring: the parts of a serving process, built and joined; LocalService: those of a command that
// answers without a server. The only file that knows all of them.
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
#include "codec/dialect.h"
#include "env/env.h"
#include "serve/server.h"
#include "wire/token_service.h"

namespace sluice::app {

class Wiring {
 public:
  // Reads the script or looks at the model's folder, binds the ports, starts all threads but the
  // net thread, which is whoever calls server().Run(). A model is loaded from then on, by the
  // engine thread.
  static Result<std::unique_ptr<Wiring>> Build(const Env& env, const AppOptions& options);
  ~Wiring();

  serve::Server& server();
  const std::string& model_name() const;  // in the API
  // Tokens of one request: what was asked for, or what the model has.
  int32_t n_context() const;
  // Where memory goes, in one line; empty: nothing of it was planned.
  const std::string& memory() const;
  // Why the server was stopped although nobody asked for it: the model could not be loaded.
  Status failure() const;

 private:
  struct Parts;
  explicit Wiring(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

// What answers inside a command: a model or a script on an engine thread of its own, and the codec
// with the settings of a server. Owned by the command's thread.
class LocalService {
 public:
  // Reads the script or looks at the model's folder; nothing runs yet. `n_waiting_max`: requests
  // that wait for one of --max-running places.
  static Result<std::unique_ptr<LocalService>> Open(const Env& env,
                                                    const AppOptions& options,
                                                    int32_t n_waiting_max);
  // Ends every request with a terminal event. Queues, and what they ring, outlive it.
  ~LocalService();

  // Returns when requests are taken, or why they never will be.
  Status Start();

  wire::TokenService& service();
  // Takes lines of the script, if there is one; without_script() takes none.
  codec::PrepareContext context() const;
  codec::PrepareContext without_script() const;

 private:
  struct Parts;
  explicit LocalService(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace sluice::app
