// Server: the public and the admin HTTP port in front of one TokenService.
//
// Owns the net thread's work: Run() is that thread. Drain, Stop and Reload may be called from any
// thread.

#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "codec/dialect.h"
#include "serve/options.h"
#include "wire/token_service.h"

namespace sluice {
class WorkPool;
struct Env;
}  // namespace sluice

namespace sluice::serve {

class Server {
 public:
  struct Parts {  // all outlive the server
    const Env& env;
    wire::TokenService& service;
    WorkPool& prep;        // bodies of common size
    WorkPool& prep_large;  // large and compressed ones, which take long
    codec::PrepareContext prepare;
    std::string version;
  };

  // Reads keys and certificates and binds the ports; nothing is accepted before Run.
  static Result<std::unique_ptr<Server>> Open(const ServeOptions& options, const Parts& parts);
  ~Server();

  int port() const;
  int admin_port() const;  // -1: none

  // Serves until a drain has ended. OK if every request reached its end within the drain deadline.
  Status Run();

  // No new work; /ready answers 503; Run returns when the rest is done or the drain deadline has
  // passed.
  void Drain();
  // Ends everything now.
  void Stop();
  // Reads the key file again.
  void Reload();

 private:
  struct State;
  explicit Server(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace sluice::serve
