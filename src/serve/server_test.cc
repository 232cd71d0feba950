// The server over real loopback sockets in front of a service that does only what a test tells it
// to.

#include "serve/server.h"

#include "codec/sample_format_test_impl.h"

#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <deque>
#include <thread>

#include "base/mutex.h"
#include "base/work_pool.h"
#include "env/posix/posix_env.h"

namespace sluice::serve {
namespace {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;

// Holds what was submitted until the test plays it. Thread-safe.
class HandService final : public wire::TokenService {
 public:
  Status Submit(wire::GenerateRequest request, wire::EventQueue& out) override {
    if (!refuse_.ok()) return refuse_;
    MutexLock lock(mu_);
    open_.push_back({request.id, &out});
    changed_.NotifyAll();
    return Status::Ok();
  }

  Status Check(const wire::GenerateRequest&) const override { return refuse_; }
  void Cancel(RequestId id) override {
    if (ignores_cancel_) return;
    End(id);
  }

  void EndAll() {
    std::vector<RequestId> ids;
    {
      MutexLock lock(mu_);
      for (const Open& open : open_) ids.push_back(open.id);
    }
    for (RequestId id : ids) End(id);
  }

  void End(RequestId id) {
    MutexLock lock(mu_);
    for (auto it = open_.begin(); it != open_.end(); ++it) {
      if (it->id != id) continue;
      wire::TokenEvent event;
      event.end = std::make_unique<wire::EventEnd>(
          wire::EventEnd{.finish = wire::FinishReason::kError,
                         .status = Status(ErrorCode::kCancelled, "cancelled"),
                         .usage = {.n_prompt = 5, .n_cached = 3, .n_completion = 9}});
      it->out->TryPush(event);
      open_.erase(it);
      ++n_cancelled_;
      changed_.NotifyAll();
      return;
    }
  }

  wire::LoadReport Load() const override {
    MutexLock lock(mu_);
    return {.n_running = 1, .last_step = stuck_ ? Time{} : Time::Max(), .loading = loading_};
  }

  // Waits for the next submitted request and plays `text` to its end.
  void Play(std::string_view text) {
    MutexLock lock(mu_);
    while (open_.empty()) changed_.Wait(mu_);
    wire::TokenEvent event;
    for (unsigned char c : text) event.tokens.push_back(TokenId(c));
    event.end = std::make_unique<wire::EventEnd>(
        wire::EventEnd{.usage = {.n_prompt = 1, .n_completion = 2}});
    open_.front().out->TryPush(event);
    open_.pop_front();
  }

  // Waits for the next submitted request and plays `text`; more is to come.
  void Begin(std::string_view text) {
    MutexLock lock(mu_);
    while (open_.empty()) changed_.Wait(mu_);
    wire::TokenEvent event;
    for (unsigned char c : text) event.tokens.push_back(TokenId(c));
    open_.front().out->TryPush(event);
  }

  // Waits until `n` requests were cancelled.
  void AwaitCancelled(int n) {
    MutexLock lock(mu_);
    while (n_cancelled_ < n) changed_.Wait(mu_);
  }
  void AwaitOpen(size_t n) {
    MutexLock lock(mu_);
    while (open_.size() < n) changed_.Wait(mu_);
  }

  void set_refuse(Status status) { refuse_ = std::move(status); }
  void set_stuck(bool stuck) { stuck_ = stuck; }
  void set_loading(std::optional<wire::LoadProgress> loading) {
    MutexLock lock(mu_);
    loading_ = std::move(loading);
  }
  void set_ignores_cancel(bool ignores) { ignores_cancel_ = ignores; }

 private:
  struct Open {
    RequestId id;
    wire::EventQueue* out;
  };
  Status refuse_;
  std::atomic<bool> stuck_{false};
  std::atomic<bool> ignores_cancel_{false};
  mutable Mutex mu_;
  CondVar changed_;
  std::deque<Open> open_ SLUICE_GUARDED_BY(mu_);
  int n_cancelled_ SLUICE_GUARDED_BY(mu_) = 0;
  std::optional<wire::LoadProgress> loading_ SLUICE_GUARDED_BY(mu_);
};

// A server on free ports with its net thread.
class Running {
 public:
  explicit Running(ServeOptions options = {}) {
    options.port = 0;
    options.admin_port = 0;
    Server::Parts parts{.env = posix.env(),
                        .service = service,
                        .prep = pool,
                        .prep_large = pool_large,
                        .prepare = {.model = card, .format = codec::SampleFormat()},
                        .version = "test"};
    Result<std::unique_ptr<Server>> opened = Server::Open(options, parts);
    SLUICE_CHECK(opened.has_value());
    server = std::move(*opened);
    net = std::thread([this] { ended = server->Run(); });
  }
  ~Running() { Join(); }
  void Join() {
    server->Drain();
    if (net.joinable()) net.join();
  }

  PosixEnv posix;
  codec::ModelCard card{.name = "deepseek-flash"};
  HandService service;
  std::unique_ptr<Server> server;
  WorkPool pool{1, 64};  // below the server: their jobs point into it
  WorkPool pool_large{1, 64};
  std::thread net;
  Status ended;
};

class Client {
 public:
  explicit Client(int port) : socket_(io_) {
    socket_.connect({asio::ip::address_v4::loopback(), static_cast<uint16_t>(port)});
  }
  void Send(std::string_view bytes) { asio::write(socket_, asio::buffer(bytes)); }
  // Until `text` was received, or the end.
  std::string ReadUntil(std::string_view text) {
    boost::system::error_code ec;
    while (got_.find(text) == std::string::npos && !ec) {
      char buffer[4096];
      size_t n = socket_.read_some(asio::buffer(buffer), ec);
      got_.append(buffer, n);
    }
    return got_;
  }
  void Forget() { got_.clear(); }
  std::string ReadAll() { return ReadUntil("\x01 never"); }
  void EndSend() { socket_.shutdown(tcp::socket::shutdown_send); }
  void Close() { socket_.close(); }

 private:
  asio::io_context io_;
  tcp::socket socket_;
  std::string got_;
};

std::string Get(int port, std::string_view path) {
  Client client(port);
  client.Send("GET " + std::string(path) +
              " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  return client.ReadAll();
}

std::string ChatRequest(bool stream, std::string_view more = "") {
  std::string body = R"({"model":"deepseek-flash","messages":[{"role":"user","content":"x"}],)"
                     R"("thinking":{"type":"disabled"},"stream":)";
  body += stream ? "true" : "false";
  body += more;
  body += "}";
  return "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
         "Content-Type: application/json\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n\r\n" + body;
}

TEST(Server, AServiceThatLoadsIsAliveAndSaysHowFarItIsUntilItIsReady) {
  Running running;
  const int port = running.server->port();
  running.service.set_loading(wire::LoadProgress{.done_bytes = 3'000'000'000,
                                                 .total_bytes = 8'000'000'000,
                                                 .elapsed = Duration::Seconds(2),
                                                 .file = "model-00003.safetensors"});
  const std::string answer = Get(port, "/ready");
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 503"));
  EXPECT_TRUE(answer.ends_with(
      R"({"status":"unavailable","reason":"loading","loading":{"percent":37.5,)"
      R"("done_bytes":3000000000,"total_bytes":8000000000,"gb_per_s":1.5,"elapsed_s":2.0,)"
      R"("eta_s":3.3,"file":"model-00003.safetensors"}})"))
      << answer;
  EXPECT_TRUE(Get(port, "/health").starts_with("HTTP/1.1 200"));

  // Before the first byte nobody knows how long it takes.
  running.service.set_loading(wire::LoadProgress{.total_bytes = 8'000'000'000});
  EXPECT_NE(Get(port, "/ready").find(R"("eta_s":null)"), std::string::npos);
  running.service.set_loading(std::nullopt);
  EXPECT_TRUE(Get(port, "/ready").starts_with("HTTP/1.1 200"));
}

TEST(Server, AWedgedEngineIsUnhealthyAndNotReady) {
  ServeOptions options;
  options.wedged_after = Duration::Seconds(0);  // any step is too long ago once the clock has moved
  Running running(options);
  int port = running.server->port();
  EXPECT_TRUE(Get(port, "/health").starts_with("HTTP/1.1 200"));
  EXPECT_TRUE(Get(port, "/ready").starts_with("HTTP/1.1 200"));
  running.service.set_stuck(true);
  EXPECT_TRUE(Get(port, "/health").starts_with("HTTP/1.1 503"));
  EXPECT_TRUE(Get(running.server->admin_port(), "/ready").starts_with("HTTP/1.1 503"));
}

TEST(Server, AnAnswerTravelsAndTheConnectionGoesOn) {
  Running running;
  Client client(running.server->port());
  for (int i = 0; i < 3; ++i) {
    client.Send(ChatRequest(false));
    running.service.Play("answer " + std::to_string(i));
    EXPECT_NE(client.ReadUntil("answer " + std::to_string(i)).find("HTTP/1.1 200 OK"),
              std::string::npos);
  }
}

// Only the end tells how much of the prompt was cached, so it is waited for; what was generated in
// vain behind the stop string is not billed.
TEST(Server, AStopStringCancelsAndTheUsageIsWhole) {
  Running running;
  for (bool stream : {false, true}) {
    Client client(running.server->port());
    client.Send(ChatRequest(stream, R"(,"stop":"END")"));
    running.service.Begin("oneENDtwo");
    const std::string answer = client.ReadUntil(R"("cached_tokens":)") + client.ReadUntil("}");
    EXPECT_NE(answer.find(R"("prompt_tokens":5,"completion_tokens":6)"), std::string::npos)
        << answer;
    EXPECT_NE(answer.find(R"("cached_tokens":3)"), std::string::npos) << answer;
    EXPECT_EQ(answer.find("two"), std::string::npos) << answer;
  }
  running.service.AwaitCancelled(2);
}

// A service that never ends what was cancelled costs the answer its count of cached tokens only.
TEST(Server, AnAnswerThatAStopStringEndedIsNotLostWithItsService) {
  Running running;
  running.service.set_ignores_cancel(true);
  Client client(running.server->port());
  client.Send(ChatRequest(false, R"(,"stop":"END")"));
  running.service.Begin("oneENDtwo");
  const std::string answer = client.ReadUntil("cached_tokens");
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200")) << answer;
  running.service.set_ignores_cancel(false);
  running.service.EndAll();
}

TEST(Server, AnEmptyLineBehindABodyLeavesTheConnectionIdle) {
  ServeOptions options;
  options.header_timeout = Duration::Millis(1);  // an idle connection is not held to it
  Running running(options);
  Client client(running.server->port());
  for (int i = 0; i < 3; ++i) {
    client.Send("GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n\r\n");
    EXPECT_EQ(client.ReadUntil("}").find("HTTP/1.1 4"), std::string::npos);
    client.Forget();
    Get(running.server->port(), "/version");
  }
  client.Send("\r\n\r\n\r\n");
  EXPECT_TRUE(client.ReadAll().starts_with("HTTP/1.1 4"));
}

TEST(Server, ARefusalOfTheServiceIsAnHttpStatusAlsoForStreams) {
  Running running;
  Status full(ErrorCode::kOverloaded, "full");
  full.set_retry_after(Duration::Millis(1500));
  running.service.set_refuse(full);
  for (bool stream : {false, true}) {
    Client client(running.server->port());
    client.Send(ChatRequest(stream));
    std::string got = client.ReadUntil("}");
    EXPECT_TRUE(got.starts_with("HTTP/1.1 503")) << got;
    EXPECT_NE(got.find("retry-after: 2\r\n"), std::string::npos);
    EXPECT_NE(got.find("retry-after-ms: 1500\r\n"), std::string::npos);
  }
}

TEST(Server, ClosingTheConnectionCancelsAtOnceInsideAndOutsideStreams) {
  Running running;
  int n_cancelled = 0;
  for (bool stream : {false, true}) {
    Client client(running.server->port());
    client.Send(ChatRequest(stream));
    running.service.AwaitOpen(1);
    client.Close();
    running.service.AwaitCancelled(++n_cancelled);
  }
}

TEST(Server, ACloseBehindPipelinedBytesIsSeen) {
  Running running;
  Client client(running.server->port());
  client.Send(ChatRequest(false) + std::string(100, 'x'));
  running.service.AwaitOpen(1);
  client.Close();
  running.service.AwaitCancelled(1);
}

// A refused head was once answered again and again: its bytes stayed in front of the next request.
TEST(Server, ABrokenRequestGetsOneAnswerAndTheConnectionEnds) {
  Running running;
  for (std::string_view head :
       {"GET / HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "x\r\n\r\n"}) {
    Client client(running.server->port());
    client.Send(head);
    client.EndSend();
    std::string got = client.ReadAll();
    EXPECT_TRUE(got.starts_with("HTTP/1.1 400")) << got;
    EXPECT_EQ(got.find("HTTP/1.1 400", 1), std::string::npos) << got;
  }
}

// Each answered without a wait in between: once a stack frame each.
TEST(Server, ManyPipelinedRequestsCostNoStack) {
  Running running;
  Client client(running.server->port());
  std::string requests;
  constexpr int kRequests = 20'000;
  for (int i = 0; i < kRequests; ++i)
    requests += "HEAD /version HTTP/1.1\r\nHost: localhost\r\n\r\n";
  requests += "GET /version HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
  std::thread sender([&] { client.Send(requests); });
  std::string got = client.ReadAll();
  sender.join();
  int n_answers = 0;
  for (size_t at = got.find("HTTP/1.1 200"); at != got.npos; at = got.find("HTTP/1.1 200", at + 1))
    ++n_answers;
  EXPECT_EQ(n_answers, kRequests + 1);
}

// A job that keeps its thread until it is told to go on.
struct Blocker : Work {
  Blocker() {
    run = [](Work& self) { static_cast<Blocker&>(self).go_on.wait(false); };
  }
  std::atomic<bool> go_on{false};
};

std::string LongRequest(size_t n_bytes) {
  std::string body = R"({"model":"deepseek-flash","thinking":{"type":"disabled"},)"
                     R"("messages":[{"role":"user","content":")" +
                     std::string(n_bytes, 'x') + "\"}]}";
  return "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
         "Content-Type: application/json\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n\r\n" + body;
}

void AwaitRequests(const Server& server, std::string_view text) {
  while (Get(server.admin_port(), "/admin/requests").find(text) == std::string::npos) {
  }
}

TEST(Server, ARequestThatWaitsForPreparationIsLetGo) {
  Blocker blocker;
  Running running;
  ASSERT_TRUE(running.pool_large.TryPost(blocker));
  {
    Client client(running.server->port());
    client.Send(LongRequest(300'000));
    AwaitRequests(*running.server, R"("request_id":"req_)");
    client.Close();
    AwaitRequests(*running.server, "[]");
  }
  // Its bytes are charged until the pool comes to it.
  std::string metrics = Get(running.server->admin_port(), "/metrics");
  EXPECT_EQ(metrics.find("sluice_bytes_buffered 0\n"), std::string::npos);
  Client middling(running.server->port());
  middling.Send(LongRequest(20'000));
  running.service.Play("not held up");
  EXPECT_NE(middling.ReadUntil("not held up").find("HTTP/1.1 200"), std::string::npos);

  Client waiting(running.server->port());
  waiting.Send(LongRequest(300'000));
  AwaitRequests(*running.server, R"("request_id":"req_)");
  running.server->Stop();
  EXPECT_TRUE(waiting.ReadAll().starts_with("HTTP/1.1 503"));
  running.Join();
  EXPECT_TRUE(running.ended.ok());
  blocker.go_on = true;
  blocker.go_on.notify_all();
}

TEST(Server, OnlyPathsForTokensTakeABody) {
  Running running;
  Client client(running.server->port());
  client.Send("GET /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 40000000\r\n\r\n");
  EXPECT_TRUE(client.ReadUntil("}").starts_with("HTTP/1.1 400"));
}

TEST(Server, AnUploadInProgressIsToldOfTheEnd) {
  Running running;
  Client client(running.server->port());
  client.Send(
      "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n"
      "Content-Type: application/json\r\nExpect: 100-continue\r\n\r\n");
  client.ReadUntil("100 Continue\r\n\r\n");
  running.server->Stop();
  EXPECT_NE(client.ReadAll().find("HTTP/1.1 503"), std::string::npos);
}

TEST(Server, DrainWaitsForWhatRunsAndRefusesWhatIsNew) {
  Running running;
  Client client(running.server->port());
  client.Send(ChatRequest(true));
  running.service.AwaitOpen(1);
  running.server->Drain();
  while (!Get(running.server->admin_port(), "/ready").starts_with("HTTP/1.1 503")) {
  }
  Client late(running.server->port());
  late.Send(ChatRequest(false));
  EXPECT_TRUE(late.ReadUntil("}").starts_with("HTTP/1.1 503"));
  running.service.Play("done");
  EXPECT_NE(client.ReadAll().find("data: [DONE]"), std::string::npos);
  running.Join();
  EXPECT_TRUE(running.ended.ok());
}

TEST(Server, StopEndsStreamsWithAnErrorTheClientCanRead) {
  Running running;
  Client client(running.server->port());
  client.Send(ChatRequest(true));
  running.service.AwaitOpen(1);
  running.server->Stop();
  EXPECT_NE(client.ReadAll().find("\"error\""), std::string::npos);
  running.Join();
  EXPECT_TRUE(running.ended.ok());
}

}  // namespace
}  // namespace sluice::serve
