// The load client of `./dev bench serve`: starts a server on a zero-delay script, talks to it over
// real loopback sockets from one epoll thread, checks every payload byte, and sets what it measures
// beside what the same two cores do with bare sockets, alternating round by round.
//
//   serve_bench [--server FILE] [--rounds N] [--results DIR] [--only cpu]
//
// Prints one line a measure and appends one line to DIR/<machine>/serve.csv; with --only cpu just
// what a streamed token costs the server's processor. Exit status 1: the server did not start or
// answered something else than its script.
//
// tidy: long-file, one program: nobody else has a use for its client and its limits

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/json.h"

namespace sluice::serve {
namespace {

namespace fs = std::filesystem;

constexpr int32_t kStreamTokens = 512;
constexpr int32_t kAnswerTokens = 64;
constexpr int32_t kStreams = 256;
constexpr int32_t kLatencyStreams = 32;
constexpr int32_t kCpuStreams = 64;
constexpr int32_t kAnswerConnections = 64;
constexpr int32_t kIdleConnections = 4'000;
constexpr int kIdleRounds = 3;  // each on a fresh server: used memory is not given back

std::vector<pid_t>& Servers() {
  static std::vector<pid_t> running;
  return running;
}

[[noreturn]] void Die(std::string_view why) {
  fmt::print(stderr, "serve_bench: {}\n", why);
  for (pid_t pid : Servers()) {
    int status = 0;
    if (waitpid(pid, &status, WNOHANG) != pid) continue;
    fmt::print(stderr, "serve_bench: the server had ended with {} {}\n",
               WIFSIGNALED(status) ? "signal" : "status",
               WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
  }
  std::exit(1);
}

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Letters in an order without a period, so that a lost, doubled or moved piece is seen. Nothing in
// it needs a JSON escape.
std::string TextOf(int32_t n_bytes, uint32_t seed) {
  std::string text;
  for (int32_t i = 0; i < n_bytes; ++i) {
    seed = seed * 1'664'525 + 1'013'904'223;
    text += "abcdefghijklmnopqrstuvwxyz ABCDEF"[(seed >> 16) % 33];
  }
  return text;
}

// What a request is expected to be answered with.
struct Ask {
  bool stream;
  std::string text;
  std::string bytes;  // of the HTTP request
};

Ask MakeAsk(bool stream, std::string text) {
  std::string body =
      fmt::format(R"({{"model":"deepseek-flash","thinking":{{"type":"disabled"}},"stream":{},)"
                  R"("messages":[{{"role":"user","content":"say the {}"}}]}})",
                  stream, stream ? "long one" : "short one");
  return {.stream = stream,
          .text = std::move(text),
          .bytes = fmt::format("POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                               "Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{}",
                               body.size(), body)};
}

// The server under test, in a process of its own. Dies with this process.
class ServerProcess {
 public:
  ServerProcess(const std::string& binary, std::vector<std::string> flags, const fs::path& log)
      : log_(log) {
    flags.insert(flags.begin(), {binary, "serve", "--port", "0", "--admin-port", "-1"});
    std::vector<char*> argv;
    for (std::string& flag : flags) argv.push_back(flag.data());
    argv.push_back(nullptr);
    fs::remove(log_);  // or the port of the server before would be read
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (std::freopen(log_.c_str(), "w", stdout) == nullptr) _exit(126);
      dup2(STDOUT_FILENO, STDERR_FILENO);
      execv(argv[0], argv.data());
      _exit(127);
    }
    Servers().push_back(pid_);
    AwaitPort();
  }
  ServerProcess(const ServerProcess&) = delete;
  ~ServerProcess() {
    kill(pid_, SIGTERM);
    kill(pid_, SIGTERM);  // the second one does not wait for idle clients
    waitpid(pid_, nullptr, 0);
    std::erase(Servers(), pid_);
  }

  uint16_t port() const { return port_; }

  // Processor time so far, of all its threads.
  struct CpuSeconds {
    double user, system;
  };
  CpuSeconds Cpu() const {
    std::ostringstream text;
    text << std::ifstream(fmt::format("/proc/{}/stat", pid_)).rdbuf();
    // The name, field 2, is in parentheses and may hold anything; utime and stime are 14 and 15.
    std::istringstream fields(text.str().substr(text.str().rfind(')') + 1));
    std::string field;
    for (int i = 3; i < 14; ++i) fields >> field;
    double user = 0, system = 0;
    fields >> user >> system;
    const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
    return {.user = user / ticks, .system = system / ticks};
  }

  int64_t RssBytes() const {
    std::ifstream file(fmt::format("/proc/{}/smaps_rollup", pid_));
    std::string line;
    while (std::getline(file, line)) {
      if (line.starts_with("Rss:")) return std::strtoll(line.c_str() + 4, nullptr, 10) * kKiB;
    }
    Die("the server's memory cannot be read");
  }

 private:
  void AwaitPort() {
    constexpr std::string_view kMark = "listening on http://127.0.0.1:";
    for (double give_up = Now() + 20; Now() < give_up; usleep(5'000)) {
      std::ostringstream text;
      text << std::ifstream(log_).rdbuf();
      size_t at = text.str().find(kMark);
      if (at != std::string::npos && text.str().find('\n', at) != std::string::npos) {
        port_ = static_cast<uint16_t>(std::atoi(text.str().c_str() + at + kMark.size()));
        return;
      }
      siginfo_t ended = {};
      waitid(P_PID, static_cast<id_t>(pid_), &ended, WEXITED | WNOHANG | WNOWAIT);
      if (ended.si_pid == pid_) Die("the server did not start:\n" + text.str());
    }
    Die("the server did not say where it listens");
  }

  const fs::path log_;
  pid_t pid_ = 0;
  uint16_t port_ = 0;
};

int ConnectTo(uint16_t port) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    Die(fmt::format("connect: {}", std::strerror(errno)));
  }
  return fd;
}

void SendAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t n = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) Die(fmt::format("send: {}", std::strerror(errno)));
    bytes.remove_prefix(static_cast<size_t>(n));
  }
}

// One keep-alive connection: sends an Ask, takes the answer apart as it comes, and ends the process
// at the first byte that is wrong.
class Client {
 public:
  explicit Client(uint16_t port) : fd_(ConnectTo(port)) {}
  Client(Client&& other) noexcept = delete;
  ~Client() { close(fd_); }

  int fd() const { return fd_; }
  bool done() const { return state_ == State::kDone; }
  double first_byte_s() const { return first_byte_at_ - sent_at_; }
  double first_token_s() const { return first_token_at_ - sent_at_; }

  void Start(const Ask& ask) {
    ask_ = &ask;
    state_ = State::kHead;
    line_.clear();
    body_.clear();
    prefix_.clear();
    n_matched_ = 0;
    saw_finish_ = saw_done_ = false;
    first_byte_at_ = first_token_at_ = 0;
    sent_at_ = Now();
    SendAll(fd_, ask.bytes);
  }

  // Bytes and content events of the connection so far.
  int64_t n_bytes = 0;
  int64_t n_events = 0;

  void Receive(std::vector<char>& scratch) {
    ssize_t n = recv(fd_, scratch.data(), scratch.size(), MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) Die("the server closed a connection");
    if (first_byte_at_ == 0) first_byte_at_ = Now();
    n_bytes += n;
    std::string_view bytes(scratch.data(), static_cast<size_t>(n));
    while (!bytes.empty()) Take(bytes);
    if (ask_->stream) CheckFrames();
    if (done()) CheckEnd();
  }

 private:
  enum class State : uint8_t { kHead, kChunkSize, kChunk, kChunkEnd, kTrailer, kCounted, kDone };

  void Take(std::string_view& bytes) {
    switch (state_) {
      case State::kHead:
        if (TakeLine(bytes, "\r\n\r\n")) ReadHead();
        break;
      case State::kChunkSize:
        if (!TakeLine(bytes, "\r\n")) break;
        n_left_ = Number(line_, 16);
        line_.clear();
        state_ = n_left_ == 0 ? State::kTrailer : State::kChunk;
        break;
      case State::kChunk:
        if (TakeBody(bytes)) state_ = State::kChunkEnd;
        break;
      case State::kChunkEnd:
        if (!TakeLine(bytes, "\r\n")) break;
        if (line_ != "\r\n") Die("a chunk is longer than it said");
        line_.clear();
        state_ = State::kChunkSize;
        break;
      case State::kTrailer:
        if (TakeLine(bytes, "\r\n")) state_ = State::kDone;
        break;
      case State::kCounted:
        if (TakeBody(bytes)) state_ = State::kDone;
        break;
      case State::kDone:
        Die("bytes after the end of an answer");
    }
  }

  bool TakeLine(std::string_view& bytes, std::string_view end) {
    while (!bytes.empty() && !line_.ends_with(end)) {
      line_ += bytes.front();
      bytes.remove_prefix(1);
    }
    return line_.ends_with(end);
  }

  bool TakeBody(std::string_view& bytes) {
    size_t n = std::min(bytes.size(), n_left_);
    body_ += bytes.substr(0, n);
    bytes.remove_prefix(n);
    n_left_ -= n;
    return n_left_ == 0;
  }

  static size_t Number(std::string_view text, int base) {
    size_t value = 0;
    if (std::from_chars(text.data(), text.data() + text.size(), value, base).ec != std::errc()) {
      Die("not a length: " + std::string(text));
    }
    return value;
  }

  void ReadHead() {
    if (!line_.starts_with("HTTP/1.1 200 ")) Die("the answer is\n" + line_);
    std::transform(line_.begin(), line_.end(), line_.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    constexpr std::string_view kLength = "\r\ncontent-length: ";
    if (size_t at = line_.find(kLength); at != std::string::npos) {
      n_left_ = Number(std::string_view(line_).substr(at + kLength.size()), 10);
      state_ = State::kCounted;
    } else if (line_.find("\r\ntransfer-encoding: chunked") != std::string::npos) {
      state_ = State::kChunkSize;
    } else {
      Die("an answer of unknown length:\n" + line_);
    }
    line_.clear();
  }

  void CheckFrames() {
    size_t at = 0;
    for (;;) {
      size_t end = body_.find('\n', at);
      if (end == std::string::npos || end + 1 == body_.size()) break;
      std::string_view frame = std::string_view(body_).substr(at, end - at);
      if (body_[end + 1] != '\n' || !frame.starts_with("data: ")) {
        Die("not a frame: " + std::string(frame));
      }
      CheckFrame(frame.substr(6));
      at = end + 2;
    }
    body_.erase(0, at);
  }

  // All frames of a stream that carry content differ in nothing else, so one is parsed and the
  // others are compared with it.
  void CheckFrame(std::string_view frame) {
    if (saw_done_) Die("a frame after [DONE]");
    bool like_the_last = !prefix_.empty() && frame.size() > prefix_.size() + suffix_.size() &&
                         frame.starts_with(prefix_) && frame.ends_with(suffix_);
    if (like_the_last) {
      frame.remove_prefix(prefix_.size());
      frame.remove_suffix(suffix_.size());
      Match(frame);
    } else if (frame == "[DONE]") {
      saw_done_ = true;
    } else {
      ParseFrame(frame);
    }
  }

  void ParseFrame(std::string_view frame) {
    Result<Json> json = Json::Parse(frame);
    if (!json || !json->root().Find("choices").is_array()) Die("a frame: " + std::string(frame));
    for (JsonValue choice : json->root().Find("choices").elements()) {
      CheckFinish(choice);
      JsonValue content = choice.Find("delta").Find("content");
      if (!content.is_string() || content.AsString().empty()) continue;
      Match(content.AsString());
      std::string raw = fmt::format(R"("content":"{}")", content.AsString());
      size_t at = frame.find(raw);
      if (at == std::string_view::npos) Die("content is not written plainly");
      prefix_ = frame.substr(0, at + raw.size() - content.AsString().size() - 1);
      suffix_ = frame.substr(at + raw.size() - 1);
    }
  }

  void CheckFinish(const JsonValue& choice) {
    JsonValue finish = choice.Find("finish_reason");
    if (!finish.is_string()) return;
    if (finish.AsString() != "stop") Die("finish_reason " + std::string(finish.AsString()));
    saw_finish_ = true;
  }

  void Match(std::string_view text) {
    if (n_matched_ == 0) first_token_at_ = Now();
    if (ask_->text.compare(n_matched_, text.size(), text) != 0 || saw_finish_) {
      Die(fmt::format("wrong text at byte {}: {}", n_matched_, text));
    }
    n_matched_ += text.size();
    ++n_events;
  }

  void CheckEnd() {
    if (!ask_->stream) {
      Result<Json> json = Json::Parse(body_);
      if (!json) Die("not JSON: " + body_);
      for (JsonValue choice : json->root().Find("choices").elements()) {
        JsonValue content = choice.Find("message").Find("content");
        if (content.is_string()) Match(content.AsString());
        CheckFinish(choice);
      }
    } else if (!body_.empty() || !saw_done_) {
      Die("a stream without [DONE]");
    }
    if (n_matched_ != ask_->text.size() || !saw_finish_) Die("an answer is incomplete");
  }

  const int fd_;
  const Ask* ask_ = nullptr;
  State state_ = State::kDone;
  std::string line_;    // head or chunk line being received
  size_t n_left_ = 0;   // of the chunk or the counted body
  std::string body_;    // received, not yet checked
  std::string prefix_;  // what stands around the content in this stream's frames
  std::string suffix_;
  size_t n_matched_ = 0;  // bytes of the expected text
  bool saw_finish_ = false;
  bool saw_done_ = false;
  double sent_at_ = 0;
  double first_byte_at_ = 0;
  double first_token_at_ = 0;
};

// Calls ready(i) for each of fds[i] that is readable, until it answers false.
template <typename Ready>
void Poll(const std::vector<int>& fds, Ready ready) {
  int epoll = epoll_create1(EPOLL_CLOEXEC);
  for (size_t i = 0; i < fds.size(); ++i) {
    epoll_event event = {.events = EPOLLIN, .data = {.u64 = i}};
    epoll_ctl(epoll, EPOLL_CTL_ADD, fds[i], &event);
  }
  epoll_event events[256];
  for (bool go_on = true; go_on;) {
    int n = epoll_wait(epoll, events, 256, 20'000);
    if (n <= 0) Die("nothing happened for 20 s");
    for (int k = 0; k < n && go_on; ++k) go_on = ready(static_cast<size_t>(events[k].data.u64));
  }
  close(epoll);
}

struct Outcome {
  double seconds = 0;
  int64_t n_events = 0;
  int64_t n_bytes = 0;
  std::vector<double> first_byte_s;
  std::vector<double> first_token_s;
};

// `n_asks` in all, each connection asking again as soon as it is answered.
Outcome Drive(uint16_t port, int32_t n_connections, int32_t n_asks, const Ask& ask) {
  std::deque<Client> clients;
  std::vector<int> fds;
  for (int32_t i = 0; i < n_connections; ++i) fds.push_back(clients.emplace_back(port).fd());
  std::vector<char> scratch(256 * kKiB);
  Outcome outcome;
  const double start = Now();
  int32_t n_started = 0;
  int32_t n_done = 0;
  for (; n_started < std::min(n_connections, n_asks); ++n_started) {
    clients[static_cast<size_t>(n_started)].Start(ask);
  }
  Poll(fds, [&](size_t i) {
    Client& client = clients[i];
    client.Receive(scratch);
    if (!client.done()) return true;
    outcome.first_byte_s.push_back(client.first_byte_s());
    outcome.first_token_s.push_back(client.first_token_s());
    if (n_started < n_asks) {
      ++n_started;
      client.Start(ask);
    }
    return ++n_done < n_asks;
  });
  outcome.seconds = Now() - start;
  for (const Client& client : clients) {
    outcome.n_events += client.n_events;
    outcome.n_bytes += client.n_bytes;
  }
  return outcome;
}

// Growth of the server's memory for each connection that has been answered once and is kept.
double IdleBytes(const ServerProcess& server, const Ask& ask) {
  constexpr int32_t kWarm = 64;
  std::deque<Client> clients;
  std::vector<char> scratch(256 * kKiB);
  int64_t before = 0;
  for (int32_t i = 0; i < kWarm + kIdleConnections; ++i) {
    if (i == kWarm) before = server.RssBytes();
    Client& client = clients.emplace_back(server.port());
    client.Start(ask);
    Poll({client.fd()}, [&](size_t) {
      client.Receive(scratch);
      return !client.done();
    });
  }
  return static_cast<double>(server.RssBytes() - before) / kIdleConnections;
}

// Connected pairs over loopback, for the limits.
struct Wires {
  explicit Wires(int32_t n) {
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (bind(listener, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
        listen(listener, 16) != 0 ||
        getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
      Die("no loopback port");
    }
    const int one = 1;
    for (int32_t i = 0; i < n; ++i) {
      near.push_back(ConnectTo(ntohs(address.sin_port)));
      far.push_back(accept(listener, nullptr, nullptr));
      setsockopt(far.back(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    }
    close(listener);
  }
  ~Wires() {
    for (int fd : near) close(fd);
    for (int fd : far) close(fd);
  }

  std::vector<int> near;
  std::vector<int> far;
};

double ThreadCpuSeconds() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Messages per second that one thread sends to a peer that reads, and what one costs its processor.
// A connection gets a few in a row, as many as an event queue holds, before it is the next one's
// turn: so the peer can read several at once, which is the best case of one write per event.
struct Sends {
  double per_s;
  double cpu_us;
};
Sends RawSends(int32_t n_connections, int64_t message_bytes, int64_t n_messages) {
  constexpr int64_t kBurst = 16;
  Wires wires(n_connections);
  const std::string message(static_cast<size_t>(message_bytes), 'x');
  const double start = Now();
  std::thread peer([&] {
    std::vector<char> scratch(256 * kKiB);
    int64_t n_left = message_bytes * n_messages;
    Poll(wires.far, [&](size_t i) {
      n_left -= recv(wires.far[i], scratch.data(), scratch.size(), MSG_DONTWAIT);
      return n_left > 0;
    });
  });
  const double cpu_start = ThreadCpuSeconds();
  for (int64_t i = 0; i < n_messages; ++i) {
    SendAll(wires.near[static_cast<size_t>(i / kBurst % n_connections)], message);
  }
  const double cpu = ThreadCpuSeconds() - cpu_start;
  peer.join();
  const auto n = static_cast<double>(n_messages);
  return {.per_s = n / (Now() - start), .cpu_us = 1e6 * cpu / n};
}

// Exchanges per second of a request and an answer of these sizes, a thread on either side.
double RawExchanges(int32_t n_connections,
                    const std::string& request,
                    int64_t answer_bytes,
                    int64_t n_exchanges) {
  Wires wires(n_connections);
  const std::string answer(static_cast<size_t>(answer_bytes), 'x');
  // Receives on fds[i]; true when another `size` bytes are complete.
  auto complete = [](int fd, size_t size, size_t& n_got, std::vector<char>& scratch) {
    n_got += static_cast<size_t>(recv(fd, scratch.data(), scratch.size(), MSG_DONTWAIT));
    if (n_got < size) return false;
    n_got -= size;
    return true;
  };
  const double start = Now();
  std::thread peer([&] {
    std::vector<size_t> n_got(wires.far.size());
    std::vector<char> scratch(64 * kKiB);
    int64_t n_left = n_exchanges;
    Poll(wires.far, [&](size_t i) {
      if (!complete(wires.far[i], request.size(), n_got[i], scratch)) return true;
      SendAll(wires.far[i], answer);
      return --n_left > 0;
    });
  });
  std::vector<size_t> n_got(wires.near.size());
  std::vector<char> scratch(64 * kKiB);
  int64_t n_to_ask = n_exchanges;
  for (int fd : wires.near) SendAll(fd, request), --n_to_ask;
  int64_t n_left = n_exchanges;
  Poll(wires.near, [&](size_t i) {
    if (!complete(wires.near[i], answer.size(), n_got[i], scratch)) return true;
    if (n_to_ask-- > 0) SendAll(wires.near[i], request);
    return --n_left > 0;
  });
  peer.join();
  return static_cast<double>(n_exchanges) / (Now() - start);
}

double Quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(q * static_cast<double>(values.size() - 1))];
}

// What is measured, round by round, beside its limit in the same unit.
struct Measure {
  const char* name;  // also the column of the CSV
  const char* unit;
  const char* target;
  std::vector<double> ours = {};
  std::vector<double> limit = {};

  double median() const { return Quantile(ours, 0.5); }
  double share() const { return limit.empty() ? 0 : median() / Quantile(limit, 0.5); }

  void Print() const {
    fmt::print("{:<24}{:>12.4g}{:>12.4g}{:>12.4g}  {:<12}{:<12}", name, median(), Quantile(ours, 0),
               Quantile(ours, 1), unit, target);
    if (!limit.empty()) fmt::print("{:.0f} % of {:.4g}", 100 * share(), Quantile(limit, 0.5));
    fmt::print("\n");
  }
};

struct Results {
  Measure single{"sse_single_write", "events/s", ">= 80000"};
  Measure shared{"sse_shared_writes", "events/s", ">= 500000"};
  Measure answers{"answers_64_tokens", "answers/s", ">= 15000"};
  Measure byte_p50{"first_byte_p50", "ms", ""};
  Measure byte_p99{"first_byte_p99", "ms", "<= 5"};
  Measure token_p50{"first_token_p50", "ms", ""};
  Measure token_p99{"first_token_p99", "ms", "<= 5"};
  Measure idle{"idle_connection", "bytes", "<= 8192"};

  std::vector<const Measure*> all() const {
    return {&single, &shared, &answers, &byte_p50, &byte_p99, &token_p50, &token_p99, &idle};
  }
};

struct Bench {
  std::string server;
  int rounds = 5;
  bool only_cpu = false;
  std::string results_dir = "bench/results";

  Ask stream = MakeAsk(true, TextOf(kStreamTokens, 1));
  Ask answer = MakeAsk(false, TextOf(kAnswerTokens, 2));

  void Run();
  void MeasureStreams(uint16_t single_port, uint16_t shared_port, Results& results) const;
  void MeasureAnswers(uint16_t port, Results& results) const;
  void MeasureFirst(uint16_t port, Results& results) const;
  void MeasureCpu(const ServerProcess& single) const;
  void Append(const Results& results) const;
};

void Bench::MeasureStreams(uint16_t single_port, uint16_t shared_port, Results& results) const {
  // One stream each tells the sizes, and warms up.
  Outcome warm = Drive(single_port, kStreams, kStreams, stream);
  Drive(shared_port, kStreams, kStreams, stream);
  const int64_t event_bytes = warm.n_bytes / warm.n_events;
  for (int round = 0; round < rounds; ++round) {
    results.single.limit.push_back(RawSends(kStreams, event_bytes, 500'000).per_s);
    Outcome single = Drive(single_port, kStreams, 2 * kStreams, stream);
    results.single.ours.push_back(static_cast<double>(single.n_events) / single.seconds);

    // The bytes of a stream in the largest useful writes.
    constexpr int64_t kWriteBytes = 64 * kKiB;
    double writes = RawSends(kStreams, kWriteBytes, 20'000).per_s;
    Outcome shared = Drive(shared_port, kStreams, 8 * kStreams, stream);
    double bytes_per_event =
        static_cast<double>(shared.n_bytes) / static_cast<double>(shared.n_events);
    results.shared.limit.push_back(writes * kWriteBytes / bytes_per_event);
    results.shared.ours.push_back(static_cast<double>(shared.n_events) / shared.seconds);
  }
}

void Bench::MeasureAnswers(uint16_t port, Results& results) const {
  constexpr int32_t kAsks = 30'000;
  Outcome warm = Drive(port, kAnswerConnections, kAsks / 10, answer);
  const int64_t answer_bytes = warm.n_bytes / (kAsks / 10);
  for (int round = 0; round < rounds; ++round) {
    results.answers.limit.push_back(
        RawExchanges(kAnswerConnections, answer.bytes, answer_bytes, 4 * kAsks));
    Outcome outcome = Drive(port, kAnswerConnections, kAsks, answer);
    results.answers.ours.push_back(kAsks / outcome.seconds);
  }
}

void Bench::MeasureFirst(uint16_t port, Results& results) const {
  for (int round = 0; round < rounds; ++round) {
    Outcome outcome = Drive(port, kLatencyStreams, 40 * kLatencyStreams, stream);
    results.byte_p50.ours.push_back(1e3 * Quantile(outcome.first_byte_s, 0.5));
    results.byte_p99.ours.push_back(1e3 * Quantile(outcome.first_byte_s, 0.99));
    results.token_p50.ours.push_back(1e3 * Quantile(outcome.first_token_s, 0.5));
    results.token_p99.ours.push_back(1e3 * Quantile(outcome.first_token_s, 0.99));
  }
}

// Of a token that has its own event and its own write; beside it what a bare send of the same bytes
// costs.
void Bench::MeasureCpu(const ServerProcess& single) const {
  Measure user{"token_user_cpu", "us", "<= 2"};
  Measure total{"token_total_cpu", "us", ""};
  const Outcome warm = Drive(single.port(), kCpuStreams, kCpuStreams, stream);
  for (int round = 0; round < rounds; ++round) {
    const Sends sends = RawSends(kCpuStreams, warm.n_bytes / warm.n_events, 200'000);
    total.limit.push_back(sends.cpu_us);
    const ServerProcess::CpuSeconds before = single.Cpu();
    const Outcome outcome = Drive(single.port(), kCpuStreams, 8 * kCpuStreams, stream);
    const ServerProcess::CpuSeconds after = single.Cpu();
    const double us_per_token = 1e6 / static_cast<double>(outcome.n_events);
    user.ours.push_back(us_per_token * (after.user - before.user));
    total.ours.push_back(us_per_token * (after.user - before.user + after.system - before.system));
  }
  user.Print();
  total.Print();
}

// "AMD EPYC 7B13" -> "amd-epyc-7b13".
std::string MachineName() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line) && !line.starts_with("model name")) {
  }
  std::string name;
  for (char c : line.substr(std::min(line.size(), line.find(": ") + 2))) {
    bool is_plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if (c >= 'A' && c <= 'Z') {
      name += static_cast<char>(c + 32);
    } else if (is_plain) {
      name += c;
    } else if (!name.empty() && name.back() != '-') {
      name += '-';
    }
  }
  while (name.ends_with('-')) name.pop_back();
  return name.empty() ? "unknown" : name;
}

void Bench::Append(const Results& results) const {
  fs::path dir = fs::path(results_dir) / MachineName();
  fs::create_directories(dir);
  fs::path path = dir / "serve.csv";
  const bool is_new = !fs::exists(path);
  std::ofstream file(path, std::ios::app);
  if (is_new) {
    file << "date,cores,rounds";
    for (const Measure* m : results.all()) {
      file << fmt::format(",{0},{0}_min,{0}_max,{0}_of_limit", m->name);
    }
    file << "\n";
  }
  const auto days = std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now());
  const std::chrono::year_month_day today(days);
  file << fmt::format("{:04}-{:02}-{:02},{},{}", static_cast<int>(today.year()),
                      static_cast<unsigned>(today.month()), static_cast<unsigned>(today.day()),
                      std::thread::hardware_concurrency(), rounds);
  for (const Measure* m : results.all()) {
    file << fmt::format(",{:.5g},{:.5g},{:.5g},", m->median(), Quantile(m->ours, 0),
                        Quantile(m->ours, 1));
    if (!m->limit.empty()) file << fmt::format("{:.3f}", m->share());
  }
  file << "\n";
  fmt::print("appended to {}\n", path.string());
}

void Bench::Run() {
  std::string name = (fs::temp_directory_path() / "sluice-bench-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) Die("no temporary folder");
  const fs::path dir = name;
  std::ofstream(dir / "script.jsonl")
      << fmt::format(R"({{"when":{{"last":"long"}},"times":"always","out":"</think>{}"}})",
                     stream.text)
      << "\n"
      << fmt::format(R"({{"times":"always","out":"</think>{}"}})", answer.text) << "\n";
  std::vector<std::string> flags = {"--script",          (dir / "script.jsonl").string(),
                                    "--max-running",     fmt::format("{}", 2 * kStreams),
                                    "--max-connections", fmt::format("{}", kIdleConnections + 100)};
  std::vector<std::string> single_flags = flags;
  single_flags.push_back("--sse-coalesce=false");

  if (only_cpu) {
    const ServerProcess single(server, single_flags, dir / "single.log");
    MeasureCpu(single);
    fs::remove_all(dir);
    return;
  }
  Results results;
  {
    ServerProcess single(server, single_flags, dir / "single.log");
    ServerProcess shared(server, flags, dir / "shared.log");
    MeasureStreams(single.port(), shared.port(), results);
    MeasureAnswers(shared.port(), results);
    MeasureFirst(shared.port(), results);
  }
  for (int round = 0; round < kIdleRounds; ++round) {
    ServerProcess fresh(server, flags, dir / "idle.log");
    results.idle.ours.push_back(IdleBytes(fresh, answer));
  }
  fmt::print("{:<24}{:>12}{:>12}{:>12}  {:<12}{:<12}{}\n", "measure", "median", "min", "max",
             "unit", "target", "of limit");
  for (const Measure* m : results.all()) m->Print();
  Append(results);
  fs::remove_all(dir);
}

int Main(int argc, char** argv) {
  Bench bench;
  bench.server = (fs::read_symlink("/proc/self/exe").parent_path() / "app" / "sluice").string();
  for (int i = 1; i < argc; i += 2) {
    std::string_view flag = argv[i];
    if (i + 1 == argc) Die(fmt::format("{} needs a value", flag));
    if (flag == "--server") {
      bench.server = argv[i + 1];
    } else if (flag == "--rounds") {
      bench.rounds = std::max(1, std::atoi(argv[i + 1]));
    } else if (flag == "--results") {
      bench.results_dir = argv[i + 1];
    } else if (flag == "--only" && argv[i + 1] == std::string_view("cpu")) {
      bench.only_cpu = true;
    } else {
      Die("usage: serve_bench [--server FILE] [--rounds N] [--results DIR] [--only cpu]");
    }
  }
  // Both ends of the limits' connections are ours.
  rlimit files = {};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  bench.Run();
  return 0;
}

}  // namespace
}  // namespace sluice::serve

int main(int argc, char** argv) { return sluice::serve::Main(argc, argv); }
