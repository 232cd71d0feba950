#include "serve/server.h"

#include <fmt/format.h>

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/limits.h"
#include "base/log.h"
#include "base/metrics.h"
#include "serve/connection.h"
#include "serve/net.h"
#include "serve/tls.h"

namespace sluice::serve {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using tcp = asio::ip::tcp;

// How late a time-out, a heartbeat or the look for a changed key file may be.
constexpr Duration kSweepPeriod = Duration::Millis(50);
constexpr Duration kKeyFilePeriod = Duration::Seconds(2);
// After the drain deadline: time for error frames to leave and for the service to let go.
constexpr Duration kStopTime = Duration::Seconds(3);
// Out of descriptors: others must close first.
constexpr Duration kAcceptRetry = Duration::Millis(100);

std::chrono::nanoseconds Chrono(Duration d) { return std::chrono::nanoseconds(d.ns); }

}  // namespace

// One listening port.
struct Listener {
  Listener(asio::io_context& io, Port port_kind) : acceptor(io), retry(io), kind(port_kind) {}
  Status Open(const std::string& host, int32_t port);
  int port() const { return acceptor.local_endpoint().port(); }

  TcpAcceptor acceptor;
  asio::steady_timer retry;
  const Port kind;
};

struct Server::State {
  State(const ServeOptions& options, const Parts& parts)
      : net(std::make_unique<Net>(options, parts)),
        sweep(net->io),
        listener(net->io, Port::kPublic),
        admin(net->io, Port::kAdmin) {}

  void Accept(Listener& from);
  void Take(Listener& from, TcpSocket socket);
  void ScheduleSweep();
  void Tick();
  void CheckKeyFile();
  void EndIfDone();

  std::unique_ptr<Net> net;
  asio::steady_timer sweep;
  Listener listener;
  Listener admin;
  Time drain_deadline = Time::Max();
  Time stop_deadline = Time::Max();
  Time next_key_check;
  bool finished = false;  // drained: nothing is open any more
};

Status Listener::Open(const std::string& host, int32_t port) {
  error_code ec;
  asio::ip::address address = asio::ip::make_address(host == "localhost" ? "127.0.0.1" : host, ec);
  if (ec)
    return Status::Invalid(fmt::format("--host {}: must be an IP address or localhost", host));
  tcp::endpoint endpoint(address, static_cast<uint16_t>(port));
  acceptor.open(endpoint.protocol(), ec);
  if (!ec) acceptor.set_option(tcp::acceptor::reuse_address(true), ec);
  if (!ec) acceptor.bind(endpoint, ec);
  if (!ec) acceptor.listen(asio::socket_base::max_listen_connections, ec);
  if (ec) {
    return Status::Invalid(
        fmt::format("cannot listen on {} port {}: {}; --port and --admin-port choose others", host,
                    port, ec.message()));
  }
  return Status::Ok();
}

Result<std::unique_ptr<Server>> Server::Open(const ServeOptions& options, const Parts& parts) {
  auto state = std::make_unique<State>(options, parts);
  Net& net = *state->net;
  SLUICE_TRY(net.LoadKeys());
  if (!options.tls_certificate.empty()) {
    SLUICE_TRY(net.tls, MakeTlsContext(options.tls_certificate, options.tls_key));
  }
  SLUICE_TRY(state->listener.Open(options.host, options.port));
  if (options.admin_port >= 0) SLUICE_TRY(state->admin.Open("127.0.0.1", options.admin_port));
  return std::unique_ptr<Server>(new Server(std::move(state)));
}

Server::Server(std::unique_ptr<State> state) : state_(std::move(state)) {}
Server::~Server() {
  // Requests that a stuck service still holds point into Net; leaking it is the only safe end of a
  // failed drain.
  if (!state_->net->connections.empty()) (void)state_.release();
}

int Server::port() const { return state_->listener.port(); }
int Server::admin_port() const {
  return state_->admin.acceptor.is_open() ? state_->admin.port() : -1;
}

Status Server::Run() {
  State& s = *state_;
  s.Accept(s.listener);
  if (s.admin.acceptor.is_open()) s.Accept(s.admin);
  s.ScheduleSweep();
  s.net->io.run();
  if (s.finished) return Status::Ok();
  return Status(
      ErrorCode::kDeadlineExceeded,
      fmt::format("{} connections did not end within the drain time", s.net->connections.size()));
}

void Server::State::Accept(Listener& from) {
  from.acceptor.async_accept([this, &from](error_code ec, TcpSocket socket) {
    if (ec == asio::error::operation_aborted) return;
    if (!ec) {
      Take(from, std::move(socket));
      Accept(from);
      return;
    }
    Log(LogLevel::kWarn, "cannot accept a connection", {{"error", ec.message()}});
    from.retry.expires_after(Chrono(kAcceptRetry));
    from.retry.async_wait([this, &from](error_code aborted) {
      if (!aborted) Accept(from);
    });
  });
}

void Server::State::Take(Listener& from, TcpSocket socket) {
  error_code ec;
  tcp::endpoint peer = socket.remote_endpoint(ec);
  if (ec) return;  // already gone
  int64_t max =
      from.kind == Port::kPublic ? net->options.max_connections : limits::kMaxAdminConnections;
  if (net->NumConnections(from.kind) >= max) {
    // Closed without an answer: whoever floods must not cost us writes. Retries find room or
    // another server.
    metrics::Add(metrics::kConnectionsRefused);
    return;
  }
  Connection::From where{.port = from.kind, .is_loopback = peer.address().is_loopback()};
  auto it = net->connections.insert(net->connections.end(), nullptr);
  *it = std::make_unique<Connection>(*net, std::move(socket), where);
  (*it)->Start(it);
}

void Server::State::ScheduleSweep() {
  sweep.expires_after(Chrono(kSweepPeriod));
  sweep.async_wait([this](error_code ec) {
    if (ec) return;
    Tick();
    if (!finished) ScheduleSweep();
  });
}

void Server::State::Tick() {
  net->Sweep();
  CheckKeyFile();
  EndIfDone();
}

// The key file is read again when it changes, so that a key can be revoked without a signal.
void Server::State::CheckKeyFile() {
  Time now = net->Now();
  if (net->options.api_keys_file.empty() || now < next_key_check) return;
  next_key_check = now + kKeyFilePeriod;
  Result<WallTime> modified = net->parts.env.fs.ModifiedAt(net->options.api_keys_file);
  WallTime when = modified.has_value() ? *modified : WallTime{-1};
  if (when == net->keys_modified) return;
  net->keys_modified = when;  // of a bad file too: said once, not every two seconds
  Status status = net->LoadKeys();
  if (status.ok()) {
    Log(LogLevel::kInfo, "keys read again");
  } else {
    Log(LogLevel::kError, "the key file is not usable; the old keys stay",
        {{"error", status.message()}});
  }
}

// The phases of an end: drain (finish what runs), stop (end it with an error its client can read),
// leave.
void Server::State::EndIfDone() {
  if (!net->draining) return;
  Time now = net->Now();
  if (drain_deadline == Time::Max()) drain_deadline = now + net->options.drain_timeout;
  bool late = now >= drain_deadline;
  if (!net->stopping && (late || net->generations.empty())) {
    if (!net->generations.empty()) {
      Log(LogLevel::kWarn, "the drain deadline has passed",
          {{"requests", net->generations.size()}});
    }
    net->BeginStop();
  }
  if (!net->stopping) return;
  if (stop_deadline == Time::Max()) {
    stop_deadline = now + kStopTime;
    // Who connects now would only be turned away, and each new one would put off the end.
    error_code ignored;
    listener.acceptor.close(ignored);
    admin.acceptor.close(ignored);
  }
  finished = net->connections.empty();
  if (finished || now >= stop_deadline) net->io.stop();
}

void Server::Drain() {
  asio::post(state_->net->io, [s = state_.get()] {
    s->net->BeginDrain();
    s->EndIfDone();
  });
}

void Server::Stop() {
  asio::post(state_->net->io, [s = state_.get()] {
    s->net->BeginStop();
    s->EndIfDone();
  });
}

void Server::Reload() {
  asio::post(state_->net->io, [s = state_.get()] {
    s->next_key_check = {};
    s->net->keys_modified = {};
    s->CheckKeyFile();
  });
}

}  // namespace sluice::serve
