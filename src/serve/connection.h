// Connection: one client connection from accept to close, as one straight coroutine. hop 1.
// Owned by the net thread; lives in Net::connections and removes itself.

#pragma once

#include <list>
#include <memory>
#include <string>
#include <string_view>

#include "base/metrics.h"
#include "base/ready_list.h"
#include "base/result.h"
#include "serve/net.h"
#include "serve/request_parser.h"
#include "serve/response.h"
#include "serve/routes.h"
#include "serve/stream.h"
#include "serve/task.h"

namespace sluice::serve {

// One request as read. The head stays; the body moves on to prep.
struct HttpRequest {
  explicit HttpRequest(const RequestParser::Limits& limits) : parser(limits) {}

  RequestParser parser;
  std::string id;  // x-request-id
  std::string body;
  Time started;   // first byte
  Duration read;  // first byte to last
  bool keep_alive = true;
  bool is_broken = false;     // where it ends is unknown: nothing behind it can be read
  int64_t charged_bytes = 0;  // to Net::buffered_bytes

  const RequestHead& head() const { return parser.head(); }
};

class Connection : public ReadyList::Node {
 public:
  struct From {
    Port port;
    bool is_loopback;  // the peer is on this machine
  };
  Connection(Net& net, TcpSocket socket, const From& from);

  // Starts the coroutine. `self`: where Net keeps this connection.
  void Start(std::list<std::unique_ptr<Connection>>::iterator self);

  // Net thread. News of any kind: token events, a prepared request, time, shutdown.
  void Wake() { wake_.Raise(); }
  // When the sweep should wake it.
  Time wake_at() const { return wake_at_; }
  // Between requests: may be closed at any time.
  bool is_idle() const { return is_idle_; }

  // What follows is for Generation.

  Net& net() { return net_; }
  Signal& wake() { return wake_; }
  void set_wake_at(Time t) { wake_at_ = t; }

  // Lets the other connections run before this one goes on.
  Async<bool> Yield();
  // What this request holds of its body and prompt, instead of what it held before. kOverloaded if
  // all together hold more than they may.
  Status Charge(HttpRequest& request, int64_t n_bytes);
  // The longest run of bytes that is sent before the other connections take their turn.
  static constexpr size_t kWriteBytesPerTurn = 256 * 1024;
  // Sends what the socket takes now and removes it from `bytes`; kWait: the rest is for Send.
  Io TrySend(std::string_view& bytes) { return stream_.Write(bytes); }
  // Sends all of `bytes`. False: the peer is gone or does not read.
  Async<bool> Send(std::string_view bytes);
  // Whether the peer has closed, as far as can be seen without reading; if not, its end will wake
  // the connection.
  bool PeerIsGone();
  Async<bool> Respond(HttpRequest& request, Response response);
  // Counts one response of the request being served.
  void CountResponse(int32_t status);
  HeadLine HeadFor(const HttpRequest& request, int32_t status);

 private:
  enum class ReadEnd : uint8_t { kDone, kClosed, kRefused };

  Detached Run();
  Async<bool> HandshakeDone();
  Async<bool> AwaitFirstByte();
  Async<bool> ServeOne();
  Async<ReadEnd> ReadRequest(HttpRequest& request, RouteMatch& match, Status& refusal);
  Async<ReadEnd> ReadUntil(HttpRequest& request, bool head_only, Status& refusal);
  Status Check(const HttpRequest& request, const RouteMatch& match);
  Status CheckOrigin(const RequestHead& head) const;
  Status CheckBody(const RequestHead& head, bool wants_json) const;
  Async<bool> SendPiece(std::string_view bytes);
  Status CheckTime(Duration allowed) const;
  Async<bool> Refuse(HttpRequest& request, const RouteMatch& match, const Status& status);
  Async<bool> Linger();

  Net& net_;
  const From from_;
  Signal wake_;
  Stream stream_;
  std::string inbox_;  // received, not yet parsed
  Time wake_at_ = Time::Max();
  bool is_idle_ = true;
  bool has_served_ = false;  // a request, whatever its answer
  std::list<std::unique_ptr<Connection>>::iterator self_;
  // Of the request being served.
  Account* account_ = nullptr;
  metrics::Route route_label_ = metrics::Route::kOther;
};

}  // namespace sluice::serve
