#include "load/lane.h"

#include <fmt/format.h>

#include <boost/asio/connect.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <utility>

#include "base/check.h"
#include "base/limits.h"
#include "load/response_reader.h"
#include "load/sse_reader.h"

namespace sluice::load {
namespace {

namespace asio = boost::asio;
using serve::Async;
using serve::Io;

// After so many reads in a row it is another lane's turn: its times count, too.
constexpr int kReadsPerTurn = 16;

// A closed loop would else ask a server that is not there as fast as it can.
constexpr Duration kConnectPause = Duration::Millis(100);

std::string_view PathOf(Api api) {
  switch (api) {
    case Api::kChat:
      return "/v1/chat/completions";
    case Api::kMessages:
      return "/v1/messages";
    case Api::kResponses:
      return "/v1/responses";
  }
  SLUICE_CHECK(!"an API without a path");
}

}  // namespace

// One request and what has come of its answer.
struct Lane::Exchange {
  Exchange(Api api, bool keeps) : answer(api, keeps) {}

  std::string bytes;  // of the request
  int64_t n_max = 0;
  Time deadline;
  Outcome outcome;
  bool has_failed = false;  // the outcome is final
  bool has_begun = false;   // a byte of the answer has come
  std::string inbox;        // received, not yet taken
  std::string body;         // taken, not yet read
  ResponseReader response;
  SseReader sse;
  AnswerReader answer;
  Time last_output;

  void Fail(EndKind kind, std::string_view why) {
    if (std::exchange(has_failed, true)) return;
    outcome.kind = kind;
    outcome.why = why;
  }
};

Lane::Lane(Site& site) : site_(site), timer_(site.io) {}

serve::Detached Lane::Run() {
  while (!site_.stopping) {
    const std::optional<Job> job = site_.schedule->Take(site_.clock.Now());
    if (!job) {
      if (site_.schedule->over(site_.clock.Now())) break;
      // Also something else than a job may have woken it.
      if (!std::exchange(is_idle_, true)) site_.idle.push_back(this);
      co_await wake_;
      continue;
    }
    if (std::exchange(is_idle_, false)) std::erase(site_.idle, this);
    ++site_.n_in_flight;
    co_await Converse(*job);
    --site_.n_in_flight;
    if (has_no_server_ && site_.options.rate == 0) {
      const Time later = site_.clock.Now() + kConnectPause;
      co_await SleepUntil(later);
    }
  }
  co_await Disconnect();
  has_ended_ = true;
}

Async<bool> Lane::Converse(Job job) {
  Workload::History history;
  const int32_t n_turns = site_.workload.n_turns(job.number);
  Time due = job.due;
  for (int32_t turn = 0; turn < n_turns; ++turn) {
    due = due + site_.workload.think(job.number, turn);
    const bool may_go_on = co_await SleepUntil(due);
    Outcome outcome{.kind = EndKind::kStopped, .due = due};
    if (may_go_on) {
      const Result<Workload::Request> request = site_.workload.Next(job.number, turn, history);
      history.last = {};
      if (request) {
        outcome = co_await Ask(*request, due, request->keeps_answer ? &history.last : nullptr);
      } else {
        outcome.kind = EndKind::kUnsent;
        outcome.why = request.error().message();
      }
      site_.results.Add(outcome, {.ttft = site_.options.slo_ttft, .itl = site_.options.slo_itl});
    }
    has_no_server_ = outcome.kind == EndKind::kConnect;
    if (outcome.kind != EndKind::kDone) {
      // Without the answer there is nothing to go on from.
      site_.results.n_turns_left += n_turns - turn - (may_go_on ? 1 : 0);
      co_return false;
    }
    due = outcome.ended;
  }
  co_return true;
}

Async<bool> Lane::SleepUntil(Time at) {
  if (site_.clock.Now() < at) Arm(at);
  while (!site_.stopping && site_.clock.Now() < at) co_await wake_;
  co_return !site_.stopping;
}

void Lane::Arm(Time at) {
  timer_.expires_after(std::chrono::nanoseconds((at - site_.clock.Now()).ns));
  timer_.async_wait([this](boost::system::error_code ec) {
    if (!ec) wake_.Raise();
  });
}

Async<Outcome> Lane::Ask(const Workload::Request& request, Time due, AnswerTurn* turn) {
  const std::string bytes = RequestBytes(request.body);
  const Time sent = site_.clock.Now();
  const Time deadline = sent + site_.options.timeout;
  Arm(deadline);
  while (true) {
    Exchange exchange(site_.options.api, turn != nullptr);
    exchange.bytes = bytes;
    exchange.n_max = request.n_max;
    exchange.deadline = deadline;
    exchange.outcome.due = due;
    exchange.outcome.sent = sent;
    const bool is_fresh = stream_ == nullptr;
    if (is_fresh) co_await Connect(exchange);
    if (!exchange.has_failed) co_await Transfer(exchange);
    if (!exchange.has_failed) Finish(exchange);
    exchange.outcome.ended = site_.clock.Now();
    const bool may_stay = !exchange.has_failed && exchange.response.keep_alive();
    if (!may_stay) co_await Disconnect();
    // An idle connection may end at any time; that the server had done so says nothing of it.
    const bool was_idle_too_long =
        !is_fresh && exchange.outcome.kind == EndKind::kCut && !exchange.has_begun;
    if (!was_idle_too_long) {
      timer_.cancel();
      if (turn != nullptr) *turn = std::move(exchange.answer.turn());
      co_return std::move(exchange.outcome);
    }
    ++site_.results.n_reconnected;
  }
}

bool Lane::MayGoOn(Exchange& exchange) const {
  if (site_.stopping) {
    exchange.Fail(EndKind::kStopped, "");
  } else if (site_.clock.Now() >= exchange.deadline) {
    exchange.Fail(EndKind::kTimeout,
                  fmt::format("no end within {} s", site_.options.timeout.seconds()));
  }
  return !exchange.has_failed;
}

Async<bool> Lane::Connect(Exchange& exchange) {
  struct {
    bool is_pending = true;
    boost::system::error_code ec;
  } attempt;
  socket_.emplace(site_.io);
  asio::async_connect(*socket_, site_.endpoints,
                      [this, &attempt](boost::system::error_code ec, const auto&) {
                        attempt = {.is_pending = false, .ec = ec};
                        wake_.Raise();
                      });
  while (attempt.is_pending) {
    if (!MayGoOn(exchange)) {
      boost::system::error_code ignored;
      socket_->close(ignored);
    }
    co_await wake_;
  }
  if (attempt.ec) exchange.Fail(EndKind::kConnect, attempt.ec.message());
  if (!exchange.has_failed) {
    stream_ = std::make_unique<serve::Stream>(std::move(*socket_), nullptr, wake_);
  }
  socket_.reset();
  co_return true;
}

// Sends the request and reads until the answer has ended. A server may answer before it has read
// everything, so both go on at once.
Async<bool> Lane::Transfer(Exchange& exchange) {
  std::string_view rest = exchange.bytes;
  int n_reads = 0;
  while (!exchange.has_failed && !exchange.response.done()) {
    if (!rest.empty() && stream_->Write(rest) == Io::kClosed) rest = {};
    const Io io = stream_->Read(exchange.inbox, site_.scratch);
    if (io == Io::kOk) {
      Take(exchange);
      if (++n_reads % kReadsPerTurn == 0) co_await Yield();
    } else if (io == Io::kClosed) {
      const Status end = exchange.response.End();
      if (!end.ok()) exchange.Fail(EndKind::kCut, end.message());
      break;
    }
    if (!MayGoOn(exchange)) break;
    if (io == Io::kWait) co_await wake_;
  }
  co_return true;
}

void Lane::Take(Exchange& exchange) {
  const Time now = site_.clock.Now();
  exchange.has_begun = true;
  const Result<size_t> n_taken = exchange.response.Feed(exchange.inbox, exchange.body);
  if (!n_taken) return exchange.Fail(EndKind::kMalformed, n_taken.error().message());
  exchange.inbox.erase(0, *n_taken);
  if (exchange.response.head_done() && exchange.response.status() == 200) {
    if (!exchange.response.is_event_stream()) {
      return exchange.Fail(EndKind::kMalformed, "the answer is no event stream");
    }
    TakeEvents(exchange, now);
  }
  exchange.body.clear();
}

void Lane::TakeEvents(Exchange& exchange, Time now) {
  std::vector<SseEvent> events;
  const Status status = exchange.sse.Push(exchange.body, events);
  if (!status.ok()) return exchange.Fail(EndKind::kMalformed, status.message());
  Outcome& outcome = exchange.outcome;
  for (const SseEvent& event : events) {
    const Result<bool> is_output = exchange.answer.OnEvent(event);
    if (!is_output) return exchange.Fail(EndKind::kMalformed, is_output.error().message());
    if (!exchange.answer.error().empty()) {
      return exchange.Fail(EndKind::kError, exchange.answer.error());
    }
    if (!*is_output) continue;
    if (!outcome.first_output) {
      outcome.first_output = now;
    } else if (std::ssize(outcome.gaps) < limits::kMaxLoadEvents) {
      outcome.gaps.push_back(now - exchange.last_output);
    } else {
      return exchange.Fail(EndKind::kMalformed,
                           fmt::format("more than {} events", limits::kMaxLoadEvents));
    }
    exchange.last_output = now;
  }
}

// The answer has come whole.
void Lane::Finish(Exchange& exchange) const {
  const int status = exchange.response.status();
  if (status != 200) {
    // Not a failure, but the end of this request.
    exchange.outcome.kind = EndKind::kRefused;
    exchange.outcome.status = status;
    return;
  }
  if (!exchange.inbox.empty()) exchange.Fail(EndKind::kMalformed, "bytes follow the answer");
  if (exchange.sse.is_inside()) exchange.Fail(EndKind::kMalformed, "the last event has no end");
  exchange.outcome.usage = exchange.answer.usage();
  const Status right = exchange.answer.Check(exchange.n_max);
  if (!right.ok()) exchange.Fail(EndKind::kMalformed, right.message());
}

Async<bool> Lane::Disconnect() {
  if (!stream_) co_return false;
  stream_->Close();
  while (!stream_->idle()) co_await wake_;
  stream_.reset();
  co_return true;
}

Async<bool> Lane::Yield() {
  bool is_turn = false;
  asio::post(site_.io, [this, &is_turn] {
    is_turn = true;
    wake_.Raise();
  });
  while (!is_turn) co_await wake_;
  co_return true;
}

std::string Lane::RequestBytes(const std::string& body) const {
  const LoadOptions& options = site_.options;
  std::string head = fmt::format(
      "POST {} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n"
      "Accept: text/event-stream\r\nUser-Agent: sluice-bench\r\nContent-Length: {}\r\n",
      PathOf(options.api), site_.target.authority, body.size());
  const bool is_anthropic = options.api == Api::kMessages;
  if (is_anthropic) head += "anthropic-version: 2023-06-01\r\n";
  if (!options.api_key.empty()) {
    head += fmt::format("{}{}\r\n", is_anthropic ? "x-api-key: " : "Authorization: Bearer ",
                        options.api_key);
  }
  return head + "\r\n" + body;
}

}  // namespace sluice::load
