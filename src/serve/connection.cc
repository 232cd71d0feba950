// hop 1 of 10: after the client's bytes, before Decode.

#include "serve/connection.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "base/metrics.h"
#include "serve/body.h"
#include "serve/generation.h"
#include "serve/inquiry.h"
#include "serve/operations.h"

namespace sluice::serve {
namespace {

// How long a client may go on sending behind its last answer, so that it reads that instead of a
// reset.
constexpr Duration kLingerTime = Duration::Seconds(5);
// Each started piece of this size must arrive within body_timeout: bounds how long a slow sender
// can hold memory.
constexpr int64_t kBodyPaceBytes = kMiB;
// Reads of one buffer each before the other connections take their turn: a fast sender has a
// megabyte at a time.
constexpr int kReadsPerTurn = 16;
// How often to ask for a peer whose end cannot be watched for, because it has sent more than it
// should.
constexpr Duration kPeerCheckPeriod = Duration::Millis(250);

// What a request may hold however much the others do: a few clients with large prompts must not
// shut everybody out. Times max-requests this comes on top of max-buffered.
constexpr int64_t kAlwaysHeldBytes = 64 * kKiB;

// The host of "host", "host:port", "[v6]:port", lower case; empty if it is none of them.
std::string HostOf(std::string_view authority) {
  size_t end = authority.starts_with('[') ? authority.find(']') + 1 : authority.find(':');
  end = std::min(end, authority.size());
  std::string_view port = authority.substr(end);
  bool is_port = port.empty() ||
                 (port.starts_with(':') && port.find_first_not_of("0123456789", 1) == port.npos);
  if (!is_port) return {};
  std::string host(authority.substr(0, end));
  std::transform(host.begin(), host.end(), host.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return host;
}

// Some clients end a body with an empty line that does not belong to it (RFC 9112 §2.2). More of
// them is not a client's mistake but its intention.
constexpr int kMaxEmptyLines = 2;

void DropEmptyLines(std::string& bytes, int& n_dropped) {
  while (n_dropped < kMaxEmptyLines && bytes.starts_with("\r\n")) {
    bytes.erase(0, 2);
    ++n_dropped;
  }
}

// count_tokens belongs to its API; the other inquiries are for tools.
bool IsSwitchedOff(const RouteMatch& match, const ServeOptions& options) {
  if (match.route != nullptr && match.route->handler == Handler::kPage) return !options.web_page;
  return match.inquiry != nullptr && !options.token_endpoints &&
         match.inquiry->kind != codec::Inquiry::Kind::kCountTokens;
}

// A value of the client's, short enough for a message.
std::string_view Short(std::string_view text) { return text.substr(0, 80); }

}  // namespace

Connection::Connection(Net& net, TcpSocket socket, const From& from)
    : net_(net),
      from_(from),
      stream_(std::move(socket), from.port == Port::kPublic ? net.tls.get() : nullptr, wake_) {}

void Connection::Start(std::list<std::unique_ptr<Connection>>::iterator self) {
  self_ = self;
  Run();
}

Detached Connection::Run() {
  metrics::AddGauge(metrics::kConnectionsOpen, 1);
  ++net_.NumConnections(from_.port);
  bool again = co_await HandshakeDone();
  while (again) {
    again = co_await ServeOne();
    if (!again || inbox_.empty()) continue;
    // Pipelined: the others take their turn before the next request of this one.
    co_await Yield();
  }
  stream_.Close();
  is_idle_ = false;
  wake_at_ = Time::Max();
  // Whoever may still call back holds a pointer to us: pending socket operations and the ready
  // list.
  while (!stream_.idle() || listed.load(std::memory_order_acquire)) {
    co_await wake_;
  }
  metrics::AddGauge(metrics::kConnectionsOpen, -1);
  --net_.NumConnections(from_.port);
  net_.connections.erase(self_);
}

Async<bool> Connection::Yield() {
  net_.ready.Add(*this);
  co_await wake_;
  co_return true;
}

Async<bool> Connection::HandshakeDone() {
  wake_at_ = net_.Now() + net_.options.header_timeout;
  while (true) {
    Io io = stream_.Handshake();
    if (io != Io::kWait) co_return io == Io::kOk;
    co_await wake_;
    if (net_.stopping || net_.Now() >= wake_at_) co_return false;
  }
}

Async<bool> Connection::AwaitFirstByte() {
  wake_at_ = net_.Now() + net_.options.idle_timeout;
  is_idle_ = true;
  int n_empty_lines = 0;
  while (true) {
    DropEmptyLines(inbox_, n_empty_lines);
    if (!inbox_.empty() && inbox_ != "\r") break;
    Io io = stream_.Read(inbox_, net_.scratch);
    if (io == Io::kClosed) co_return false;
    if (io == Io::kOk) continue;
    // Draining: a connection that was kept alive ends; a new one may ask once, be it only whether
    // we are ready.
    if (net_.stopping || (net_.draining && has_served_)) co_return false;
    if (inbox_.empty()) std::string().swap(inbox_);
    co_await wake_;
    if (net_.Now() >= wake_at_) co_return false;
  }
  is_idle_ = false;
  co_return true;
}

Async<bool> Connection::ServeOne() {
  bool has_request = co_await AwaitFirstByte();
  if (!has_request) co_return false;
  RequestParser::Limits limits{.header_bytes = net_.options.max_header_bytes,
                               .body_bytes = net_.options.max_body_bytes};
  auto request = std::make_unique<HttpRequest>(limits);
  request->id = fmt::format("req_{}{:08x}", net_.boot_id, ++net_.n_requests);
  request->started = net_.Now();
  route_label_ = metrics::Route::kOther;

  RouteMatch match;
  Status refusal;
  bool again = false;
  ReadEnd end = co_await ReadRequest(*request, match, refusal);
  if (end == ReadEnd::kRefused) {
    again = co_await Refuse(*request, match, refusal);
  } else if (end == ReadEnd::kDone && request->head().method == "OPTIONS") {
    Response response{
        .status = 204, .content_type = {}, .body = {}, .headers = {{"Allow", match.allow}}};
    again = co_await Respond(*request, std::move(response));
  } else if (end == ReadEnd::kDone && match.route->handler == Handler::kGenerate) {
    Generation generation(*this, *request, *match.dialect, *account_);
    again = co_await generation.Run();
  } else if (end == ReadEnd::kDone && match.route->handler == Handler::kInquiry) {
    again = co_await AnswerInquiry(*this, *request, *match.inquiry, *account_);
  } else if (end == ReadEnd::kDone) {
    Response response = HandleOperation(
        net_,
        {.match = match, .head = request->head(), .request_id = request->id, .account = account_});
    again = co_await Respond(*request, std::move(response));
  }
  (void)Charge(*request, 0);  // giving back is not refused
  if (account_ != nullptr) --std::exchange(account_, nullptr)->n_held;
  has_served_ = true;
  request.reset();  // its body is charged no more
  if (!again && end != ReadEnd::kClosed) co_await Linger();
  co_return again;
}

Async<Connection::ReadEnd> Connection::ReadRequest(HttpRequest& request,
                                                   RouteMatch& match,
                                                   Status& refusal) {
  ReadEnd end = co_await ReadUntil(request, /*head_only=*/true, refusal);
  if (end != ReadEnd::kDone) co_return end;
  const RequestHead& head = request.head();
  request.keep_alive = head.keep_alive;
  match = FindRoute(head.method, head.path, from_.port);
  if (IsSwitchedOff(match, net_.options)) match = {};
  route_label_ = RouteLabel(match);
  refusal = Check(request, match);
  if (!refusal.ok()) co_return ReadEnd::kRefused;

  if (head.expects_continue && !request.parser.done() && inbox_.empty()) {
    bool sent = co_await Send("HTTP/1.1 100 Continue\r\n\r\n");
    if (!sent) co_return ReadEnd::kClosed;
  }
  end = co_await ReadUntil(request, /*head_only=*/false, refusal);
  if (end != ReadEnd::kDone) co_return end;
  request.body = request.parser.TakeBody();
  request.read = net_.Now() - request.started;
  metrics::Add(metrics::kBodyBytes, static_cast<int64_t>(request.body.size()));
  co_return ReadEnd::kDone;
}

Async<Connection::ReadEnd> Connection::ReadUntil(HttpRequest& request,
                                                 bool head_only,
                                                 Status& refusal) {
  const ServeOptions& options = net_.options;
  int n_reads = 0;
  while (true) {
    Result<size_t> n_taken = request.parser.Feed(inbox_);
    if (!n_taken) {
      refusal = std::move(n_taken.error());
      request.is_broken = true;
      co_return ReadEnd::kRefused;
    }
    inbox_.erase(0, *n_taken);
    refusal = Charge(request, request.parser.body_size());
    if (!refusal.ok()) co_return ReadEnd::kRefused;
    if (head_only ? request.parser.head_done() : request.parser.done()) co_return ReadEnd::kDone;
    if (*n_taken > 0 && !inbox_.empty()) continue;

    Duration allowed = options.header_timeout;
    if (!head_only)
      allowed = allowed + options.body_timeout * (1 + request.parser.body_size() / kBodyPaceBytes);
    wake_at_ = request.started + allowed;
    refusal = CheckTime(allowed);
    if (!refusal.ok()) {
      request.is_broken = true;
      co_return ReadEnd::kRefused;
    }
    Io io = stream_.Read(inbox_, net_.scratch);
    if (io == Io::kClosed) co_return ReadEnd::kClosed;
    if (io == Io::kOk && ++n_reads % kReadsPerTurn != 0) continue;
    if (io == Io::kOk) {
      co_await Yield();
    } else {
      co_await wake_;
    }
  }
}

// Whether a request may go on arriving; `allowed` is for the message.
Status Connection::CheckTime(Duration allowed) const {
  if (net_.stopping) return Status(ErrorCode::kOverloaded, "the server is shutting down");
  if (net_.Now() < wake_at_) return Status::Ok();
  return Status(ErrorCode::kRequestTimeout,
                fmt::format("the request did not arrive within {} s", allowed.seconds()));
}

Status Connection::Charge(HttpRequest& request, int64_t n_bytes) {
  net_.buffered_bytes += n_bytes - request.charged_bytes;
  request.charged_bytes = n_bytes;
  int64_t n_all = net_.buffered_bytes + net_.abandoned_bytes.load(std::memory_order_relaxed);
  metrics::Set(metrics::kBytesBuffered, n_all);
  if (n_bytes <= kAlwaysHeldBytes || n_all <= net_.options.max_buffered_bytes) return Status::Ok();
  Status status(ErrorCode::kOverloaded,
                fmt::format("bodies and prompts of requests in flight exceed {} bytes",
                            net_.options.max_buffered_bytes));
  status.set_retry_after(Duration::Seconds(1));
  return status;
}

Status Connection::Check(const HttpRequest& request, const RouteMatch& match) {
  const RequestHead& head = request.head();
  SLUICE_TRY(CheckOrigin(head));
  if (match.allow.empty()) {
    return Status(ErrorCode::kNotFound,
                  fmt::format("no such path: {} {}", Short(head.method), Short(head.path)));
  }
  if (head.method == "OPTIONS") return Status::Ok();
  if (match.route == nullptr) {
    return Status(
        ErrorCode::kMethodNotAllowed,
        fmt::format("method {} is not allowed here; allowed: {}", Short(head.method), match.allow));
  }
  bool needs_key = match.route->access == Access::kKey ||
                   (match.route->access == Access::kKeyOrLoopback && !from_.is_loopback);
  if (needs_key) {
    Result<Account*> account =
        net_.accounts.Authenticate(head.bearer.empty() ? head.api_key : head.bearer);
    if (!account) {
      metrics::Add(metrics::kAuthFailures);
      return std::move(account.error());
    }
    account_ = *account;
    ++account_->n_held;
  }
  return CheckBody(head, match.dialect != nullptr);
}

// DNS rebinding and cross-site requests reach a loopback server through the user's browser, which
// says whom it meant.
Status Connection::CheckOrigin(const RequestHead& head) const {
  const std::vector<std::string>& allowed = net_.options.allowed_hosts;
  bool checks = from_.port == Port::kAdmin || IsLoopback(net_.options.host) || !allowed.empty();
  auto is_allowed = [&](std::string_view authority) {
    std::string host = HostOf(authority);
    return host == "localhost" || host == "127.0.0.1" || host == "[::1]" ||
           host == net_.options.host ||
           std::find(allowed.begin(), allowed.end(), host) != allowed.end();
  };
  if (!checks || std::find(allowed.begin(), allowed.end(), "*") != allowed.end())
    return Status::Ok();
  if (!head.host.empty() && !is_allowed(head.host)) {
    return Status(
        ErrorCode::kPermissionDenied,
        fmt::format("Host {} is not served here; --allowed-host adds names", Short(head.host)));
  }
  if (head.origin.empty()) return Status::Ok();
  size_t authority = head.origin.find("://");
  if (authority == std::string::npos ||
      !is_allowed(std::string_view(head.origin).substr(authority + 3))) {
    return Status(ErrorCode::kPermissionDenied,
                  fmt::format("Origin {} is not allowed here; --allowed-host adds names",
                              Short(head.origin)));
  }
  return Status::Ok();
}

Status Connection::CheckBody(const RequestHead& head, bool wants_json) const {
  if (!wants_json && head.has_body) return Status::Invalid("this path takes no request body");
  if (wants_json && head.content_type != "application/json") {
    return Status(ErrorCode::kUnsupportedMedia,
                  fmt::format("Content-Type must be application/json, not {}",
                              head.content_type.empty() ? "absent" : Short(head.content_type)))
        .set_param("Content-Type");
  }
  if (!head.content_encoding.empty() && !CanDecode(head.content_encoding)) {
    return Status(ErrorCode::kUnsupportedMedia,
                  fmt::format("Content-Encoding {} is not one of gzip, deflate, zstd",
                              Short(head.content_encoding)))
        .set_param("Content-Encoding");
  }
  return Status::Ok();
}

Async<bool> Connection::Refuse(HttpRequest& request,
                               const RouteMatch& match,
                               const Status& status) {
  const bool is_anthropic = request.parser.head_done() && request.head().is_anthropic;
  const codec::Dialect& dialect =
      match.dialect != nullptr ? *match.dialect : ErrorDialect(is_anthropic);
  Response response = ErrorResponse(status, dialect, request.id);
  if (status.code() == ErrorCode::kMethodNotAllowed)
    response.headers.emplace_back("Allow", match.allow);
  // What is left of the request is unknown or unwanted, so the connection cannot go on behind it.
  bool is_last = request.is_broken || !request.parser.done();
  if (is_last) request.keep_alive = false;
  bool again = co_await Respond(request, std::move(response));
  co_return again;
}

// The end of a connection that has answered: reads and drops what still comes, until the client
// ends, too. Closing at once would reset the connection and could take the answer with it (RFC 9112
// §9.6).
Async<bool> Connection::Linger() {
  stream_.CloseWrite();
  std::string().swap(inbox_);
  Time give_up_at = net_.Now() + kLingerTime;
  while (true) {
    wake_at_ = std::min(give_up_at, net_.last_write_at);
    if (net_.Now() >= wake_at_) break;
    Io io = stream_.Discard(net_.scratch);
    if (io == Io::kClosed) break;
    if (io == Io::kWait) co_await wake_;
    if (io == Io::kOk) co_await Yield();  // whoever still floods waits for everybody else
  }
  co_return true;
}

HeadLine Connection::HeadFor(const HttpRequest& request, int32_t status) {
  bool keep_alive = request.keep_alive && !net_.draining;
  int32_t minor = request.parser.head_done() ? request.head().http_minor : 1;
  return {.status = status,
          .content_type = "application/json",
          .framing = Framing::kLength,
          .content_length = 0,
          .keep_alive = keep_alive,
          .http_minor = minor,
          .date = net_.Date(),
          .request_id = request.id};
}

Async<bool> Connection::Respond(HttpRequest& request, Response response) {
  HeadLine line = HeadFor(request, response.status);
  line.content_type = response.content_type;
  const bool has_body = response.status != 204 && response.status != 304;
  line.framing = has_body ? Framing::kLength : Framing::kNoBody;
  line.content_length = static_cast<int64_t>(response.body.size());
  CountResponse(response.status);
  std::string bytes;
  AppendHead(bytes, line, response.headers);
  bool is_head = request.parser.head_done() && request.head().method == "HEAD";
  if (is_head) response.body.clear();
  // One write for what is common; a long body is not copied for it.
  bool is_long = response.body.size() > kWriteBytesPerTurn;
  if (!is_long) bytes += response.body;
  bool sent = co_await Send(bytes);
  if (sent && is_long) {
    sent = co_await Send(response.body);
  }
  bool again = sent && line.keep_alive;
  co_return again;
}

Async<bool> Connection::Send(std::string_view bytes) {
  while (bytes.size() > kWriteBytesPerTurn) {
    bool sent = co_await SendPiece(bytes.substr(0, kWriteBytesPerTurn));
    if (!sent) co_return false;
    bytes.remove_prefix(kWriteBytesPerTurn);
    co_await Yield();
  }
  bool sent = co_await SendPiece(bytes);
  co_return sent;
}

Async<bool> Connection::SendPiece(std::string_view bytes) {
  Io io = stream_.Write(bytes);
  if (io != Io::kWait) co_return io == Io::kOk;
  bool is_slow = !stream_.is_tls();  // under TLS every write waits for its callback
  if (is_slow) metrics::Add(metrics::kSlowReaderPauses);
  size_t n_left = bytes.size();
  Time give_up_at = net_.Now() + net_.options.write_timeout;
  while (io == Io::kWait) {
    wake_at_ = std::min(give_up_at, net_.last_write_at);
    co_await wake_;
    io = stream_.Write(bytes);
    if (io != Io::kWait) break;
    Time now = net_.Now();
    if (bytes.size() < n_left) {
      n_left = bytes.size();
      give_up_at = now + net_.options.write_timeout;
    } else if (!std::exchange(is_slow, true)) {
      metrics::Add(metrics::kSlowReaderPauses);
    }
    if (now >= std::min(give_up_at, net_.last_write_at)) co_return false;
  }
  co_return io == Io::kOk;
}

void Connection::CountResponse(int32_t status) {
  using metrics::StatusClass;
  constexpr StatusClass kClasses[] = {StatusClass::k2xx, StatusClass::k3xx, StatusClass::k4xx,
                                      StatusClass::k5xx};
  metrics::Add(metrics::kHttpRequests, route_label_, kClasses[status / 100 - 2]);
}

bool Connection::PeerIsGone() {
  Io io = stream_.WatchPeer();
  if (io == Io::kOk) wake_at_ = std::min(wake_at_, net_.Now() + kPeerCheckPeriod);
  return io == Io::kClosed;
}

}  // namespace sluice::serve
