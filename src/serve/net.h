// Net: what all connections of the net thread share. One per server; owned by the net thread, which
// is the one inside io.run(). Other threads ring `ready`'s bell or post to `io`; prep threads also
// use what is constant after Open, the clock, `responses` and `turns`, and count `abandoned_bytes`.

#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ssl/context.hpp>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "base/ready_list.h"
#include "base/time.h"
#include "codec/dialect/responses/response_store.h"
#include "codec/turn_memory.h"
#include "env/env.h"
#include "serve/accounts.h"
#include "serve/options.h"
#include "serve/routes.h"
#include "serve/server.h"

namespace sluice::serve {

class Connection;
class Generation;

struct Net {
  Net(const ServeOptions& given_options, const Server::Parts& given_parts);
  ~Net();

  // Constant after Open.
  ServeOptions options;
  const Server::Parts parts;
  std::unique_ptr<boost::asio::ssl::context> tls;  // null: plain
  std::string boot_id;                             // in every request id of this process
  WallTime started;
  Time opened;  // the same moment: until its first step a service counts from here

  boost::asio::io_context io{1};
  ReadyList ready;
  codec::responses::ResponseStore responses;  // self-synchronised
  codec::TurnMemory turns;                    // self-synchronised

  Accounts accounts;
  WallTime keys_modified;
  std::list<std::unique_ptr<Connection>> connections;
  std::list<Generation*> generations;  // in flight
  bool draining = false;               // no new work
  bool stopping = false;               // and what runs ends now
  Time last_write_at = Time::Max();    // while stopping: when clients that do not read are given up
  int64_t n_public = 0;                // connections by port
  int64_t n_admin = 0;
  int64_t buffered_bytes = 0;  // of request bodies being read or prepared
  std::atomic<int64_t> abandoned_bytes{
      0};                     // of bodies nobody waits for, until a prep thread frees them
  int64_t held_bytes = 0;     // of non-streaming answers being collected
  uint64_t n_requests = 0;    // ever; the source of x-request-id
  uint64_t n_submitted = 0;   // ever; the source of RequestId
  std::vector<char> scratch;  // one read

  // IMF-fixdate, renewed once a second.
  const std::string& Date();
  Time Now() const { return parts.env.clock.Now(); }

  int64_t& NumConnections(Port port) { return port == Port::kPublic ? n_public : n_admin; }

  // What preparing a request of this account needs.
  codec::PrepareContext ContextFor(const Account& account);

  // A service that has work and has not stepped for wedged_after is not alive.
  bool EngineAlive() const;

  // The key file again; on error the old keys stay.
  Status LoadKeys();

  // No new work; idle connections close.
  void BeginDrain();
  // Every request ends with an error its client can read.
  void BeginStop();

  // Wakes the connections whose time has come, and lets go of stored responses that are too old.
  void Sweep();
  // Wakes the connections with news from other threads.
  void TakeReady();

 private:
  std::string date_;
  int64_t date_s_ = -1;
  Time next_expiry_;
};

}  // namespace sluice::serve
