#include "serve/generation.h"

#include <fmt/format.h>

#include "base/limits.h"
#include "base/log.h"
#include "base/metrics.h"
#include "serve/preparation.h"

namespace sluice::serve {
namespace {

// How long the end of a request that a stop string has cancelled is waited for. A living engine
// sends it within one step.
constexpr Duration kUsageWait = Duration::Seconds(1);

// Writes of a stream that always has news before the others take their turn.
constexpr int kFlushesPerTurn = 4;

// Of a request that was accepted.
metrics::Outcome OutcomeOf(ErrorCode code) {
  const bool is_aborted = code == ErrorCode::kOverloaded || code == ErrorCode::kDeadlineExceeded;
  return is_aborted ? metrics::Outcome::kAborted : metrics::Outcome::kError;
}

// Who ended it, for the log.
std::string_view EndName(metrics::Outcome outcome) {
  switch (outcome) {
    case metrics::Outcome::kStop:
    case metrics::Outcome::kLength:
    case metrics::Outcome::kStopString:
      return "finished";
    case metrics::Outcome::kCancelled:
      return "aborted-by-client";
    case metrics::Outcome::kAborted:
      return "aborted-by-server";
    case metrics::Outcome::kError:
      return "failed";
    case metrics::Outcome::kRefused:
      return "rejected";
  }
  return "failed";
}

std::string_view ClassName(wire::RequestClass request_class) {
  return metrics::LabelTraits<metrics::Class>::kNames[static_cast<size_t>(request_class)];
}

}  // namespace

Generation::Generation(Connection& connection,
                       HttpRequest& request,
                       const codec::Dialect& dialect,
                       Account& account)
    : connection_(connection),
      wake_(connection.wake()),
      net_(connection.net()),
      request_(request),
      dialect_(dialect),
      account_(account),
      started_(net_.Now()),
      sent_at_(started_),
      class_(account.request_class) {
  self_ = net_.generations.insert(net_.generations.end(), this);
  trace_.Add(Zone::kHttpRead, request.read);
  metrics::Add(metrics::kRequestsReceived);
}

Generation::~Generation() { net_.generations.erase(self_); }

Async<bool> Generation::Run() {
  Status status = Admit();
  if (status.ok()) {
    status = co_await Prepare();
  }
  if (status.ok()) status = SubmitAll();
  bool again = false;
  if (status.ok()) {
    again = co_await Answer();
  } else if (status.code() == ErrorCode::kCancelled) {
    again = Disconnected();
  } else {
    outcome_ = metrics::Outcome::kRefused;
    again = co_await EndWith(status);
  }
  CancelAll();
  co_await AwaitEnds();
  Settle();
  co_return again;
}

Status Generation::Admit() {
  if (net_.draining) return Overloaded("the server is shutting down");
  if (static_cast<int64_t>(net_.generations.size()) > net_.options.max_requests) {
    return Overloaded(
        fmt::format("{} requests are in flight, the limit", net_.options.max_requests));
  }
  SLUICE_TRY(net_.accounts.Admit(account_, started_));
  admitted_ = true;
  return Status::Ok();
}

Async<Status> Generation::Prepare() {
  PrepareParams params{.dialect = dialect_,
                       .context = net_.ContextFor(account_),
                       .deadline = started_ + net_.options.request_timeout};
  PrepOutput output;
  Duration spent;
  Status status = co_await PrepareBody(connection_, request_, params, output, spent);
  prepared_.emplace(std::move(output.prepared));
  trace_.Add(Zone::kCodecDecode, spent);
  if (status.ok()) CountHistory();
  co_return status;
}

void Generation::CountHistory() const {
  const int32_t n_sampled = prepared_->n_spliced_turns;
  const int32_t n_rendered = prepared_->n_history_turns - n_sampled;
  metrics::Add(metrics::kHistoryTurns, metrics::HistoryTurn::kSampled, n_sampled);
  metrics::Add(metrics::kHistoryTurns, metrics::HistoryTurn::kRendered, n_rendered);
}

Status Generation::SubmitAll() {
  Time begin = net_.Now();
  wire::GenerateRequest& first = prepared_->generate;
  first.tenant = account_.tenant;
  first.key = account_.key;
  class_ = first.request_class;
  first.deadline = started_ + net_.options.request_timeout;
  // Stop strings are found here, so with them every token late is a token too many.
  bool can_wait = !prepared_->answer.stream && prepared_->answer.stops.empty();
  wire::EventQueue::Tell tell =
      can_wait ? wire::EventQueue::Tell::kHalfFull : wire::EventQueue::Tell::kEachEvent;
  if (prepared_->answer.tells_progress) tell = wire::EventQueue::Tell::kPromptToo;
  for (int32_t i = 0; i < prepared_->answer.n_choices; ++i) {
    bool is_last = i + 1 == prepared_->answer.n_choices;
    wire::GenerateRequest request = is_last ? std::move(first) : first;
    request.id = RequestId(++net_.n_submitted);
    // Choices with one seed would all be the same.
    if (request.sampling.seed) *request.sampling.seed += static_cast<uint64_t>(i);
    Choice choice{.id = request.id,
                  .queue = std::make_unique<wire::EventQueue>(net_.ready, connection_, tell)};
    SLUICE_TRY(net_.parts.service.Submit(std::move(request), *choice.queue));
    choices_.push_back(std::move(choice));
  }
  sent_at_ = net_.Now();  // the silence that a heartbeat breaks begins now
  trace_.Add(Zone::kRoute, sent_at_ - begin);
  codec::AnswerIdentity identity{.id = request_.id.substr(request_.id.find('_') + 1),
                                 .created = net_.parts.env.clock.Wall(),
                                 .fingerprint = "sluice-" + net_.parts.version,
                                 .entropy = net_.parts.env.entropy.Next()};
  answer_.emplace(dialect_, net_.parts.prepare.format, std::move(prepared_->answer),
                  std::move(identity));
  return Status::Ok();
}

Async<bool> Generation::Answer() {
  bool is_stream = answer_->spec().stream;
  if (is_stream) {
    bool begun = co_await Begin();
    if (!begun) co_return false;
  }
  int n_flushes = 0;
  std::string held;  // non-stream: whatever the encoder wants to say before the end is nothing
  while (!IsAnswered()) {
    std::string& out = is_stream ? frames_->Begin() : held;
    size_t n_before = out.size();
    drained_at_ = net_.Now();
    Status end = DrainEvents(out);
    bool has_news = out.size() > n_before;
    if (net_.options.trace) trace_.Add(Zone::kCodecEncode, net_.Now() - drained_at_);
    if (is_stream && has_news) {
      bool sent = co_await Flush(/*is_last=*/false);
      if (!sent) co_return Disconnected();
      if (++n_flushes % kFlushesPerTurn == 0 && end.ok()) co_await connection_.Yield();
    }
    if (end.ok()) end = HoldAnswer();
    if (end.ok() && !has_news && !IsAnswered()) {
      bool alive = co_await WaitForNews(end);
      if (!alive) co_return Disconnected();
    }
    if (!end.ok()) {
      bool again = co_await EndWith(std::move(end));
      co_return again;
    }
  }
  bool again = co_await Complete();
  co_return again;
}

bool Generation::Disconnected() {
  metrics::Add(metrics::kClientDisconnects);
  outcome_ = metrics::Outcome::kCancelled;
  status_ = RowOf(ErrorCode::kCancelled).http_status;
  return false;
}

// Takes what is there from every choice; with --sse-coalesce=false one event, so that each gets its
// own write.
Status Generation::DrainEvents(std::string& out) {
  size_t n_before = out.size();
  if (answer_->spec().tells_progress && !has_token_) TellPrompt(out);
  for (size_t k = 0; k < choices_.size(); ++k) {
    Choice& choice = choices_[next_choice_];
    int32_t index = static_cast<int32_t>(next_choice_);
    next_choice_ = (next_choice_ + 1) % choices_.size();
    SLUICE_TRY(Take(choice, index, out));
    if (!net_.options.sse_coalesce && out.size() > n_before) break;
  }
  return Status::Ok();
}

// Choices have the prompt in common: what the first one says is enough.
void Generation::TellPrompt(std::string& out) {
  const wire::PromptProgress prompt = choices_.front().queue->prompt();
  if (std::exchange(told_, prompt) != prompt) answer_->Progress(prompt, out);
}

Status Generation::Take(Choice& choice, int32_t index, std::string& out) {
  size_t n_before = out.size();
  wire::TokenEvent event;
  while (choice.state != ChoiceState::kEnded && choice.queue->TryPop(event)) {
    bool was_running = choice.state == ChoiceState::kRunning;
    if (event.end) {
      choice.state = ChoiceState::kEnded;
      work_.Add(event.end->work);
    }
    if (was_running && !event.tokens.empty()) CountTokens();
    if (was_running && event.end && !event.end->status.ok()) return std::move(event.end->status);
    codec::Answer::Next next = answer_->OnEvent(index, event, out);
    if (next == codec::Answer::Next::kCancel) {
      choice.state = ChoiceState::kStopped;
      usage_due_ = drained_at_ + kUsageWait;
      net_.parts.service.Cancel(choice.id);
    }
    if (was_running && next != codec::Answer::Next::kMore) Note(answer_->finish(index));
    if (!net_.options.sse_coalesce && out.size() > n_before) break;
  }
  if (choice.state != ChoiceState::kEnded) choice.queue->Drained();
  return Status::Ok();
}

void Generation::Note(codec::Finish finish) {
  if (finish == codec::Finish::kStopString) outcome_ = metrics::Outcome::kStopString;
  if (finish == codec::Finish::kLength) outcome_ = metrics::Outcome::kLength;
}

// Collected answers are bounded, each one and all together.
Status Generation::HoldAnswer() {
  int64_t n_bytes = answer_->held_bytes();
  net_.held_bytes += n_bytes - std::exchange(n_held_bytes_, n_bytes);
  if (n_bytes > limits::kMaxHeldAnswerBytes) {
    return Status(
        ErrorCode::kTooLarge,
        fmt::format("the answer exceeds {} bytes; ask for {}fewer log probabilities or "
                    "fewer tokens",
                    limits::kMaxHeldAnswerBytes, answer_->spec().stream ? "" : "a stream, for "));
  }
  if (net_.held_bytes > limits::kMaxHeldAnswersBytes) {
    return Overloaded(fmt::format("answers being collected exceed {} bytes; ask for a stream",
                                  limits::kMaxHeldAnswersBytes));
  }
  return Status::Ok();
}

void Generation::CountTokens() {
  Time now = drained_at_;
  // Later events of a whole answer are told of late, many at once.
  const bool is_timely = answer_->spec().stream;
  if (!has_token_) {
    metrics::Observe(metrics::kTtft, (now - started_).seconds());
    first_token_ = now;
  } else if (is_timely && now > last_event_) {  // what waited together counts as one
    metrics::Observe(metrics::kItl, (now - last_event_).seconds());
  }
  has_token_ = true;
  last_event_ = now;
}

// Whether all that the client will get is known. A service that does not end what was cancelled
// costs the answer its usage of the cache, not more.
bool Generation::IsAnswered() const {
  bool waits_for_usage = false;
  for (const Choice& choice : choices_) {
    if (choice.state == ChoiceState::kRunning) return false;
    if (choice.state == ChoiceState::kStopped) waits_for_usage = true;
  }
  return !waits_for_usage || net_.stopping || net_.Now() >= usage_due_;
}

// Called when there is nothing to send. False: the client is gone. `end`: why the answer must end
// now.
Async<bool> Generation::WaitForNews(Status& end) {
  if (net_.stopping) {
    end = Overloaded("the server is shutting down");
    co_return true;
  }
  Time heartbeat_at = sent_at_ + net_.options.heartbeat;
  if (drained_at_ >= heartbeat_at) {
    bool sent = co_await SendHeartbeat();
    co_return sent;
  }
  bool waits_for_usage = usage_due_ > drained_at_;
  connection_.set_wake_at(waits_for_usage ? std::min(heartbeat_at, usage_due_) : heartbeat_at);
  if (connection_.PeerIsGone()) co_return false;
  co_await wake_;
  co_return true;
}

Async<bool> Generation::SendHeartbeat() {
  metrics::Add(metrics::kHeartbeatsSent);
  if (!frames_) {
    bool begun = co_await Begin();
    if (!begun) co_return false;
  }
  answer_->Heartbeat(frames_->Begin());
  bool sent = co_await Flush(/*is_last=*/false);
  sent_at_ = net_.Now();
  co_return sent;
}

Headers Generation::AnswerHeaders() const {
  Headers headers;
  AddModelHeaders(net_, prepared_ ? prepared_->ignored_fields : std::vector<std::string>(),
                  headers);
  if (prepared_ && prepared_->n_missing_reasoning > 0) {
    headers.emplace_back("x-sluice-missing-reasoning",
                         fmt::format("{}", prepared_->n_missing_reasoning));
  }
  return headers;
}

// The head of a body whose length is not known yet: streams, and answers that needed a sign of life
// first.
Async<bool> Generation::Begin() {
  HeadLine line = connection_.HeadFor(request_, 200);
  line.framing = line.http_minor == 0 ? Framing::kClose : Framing::kChunked;
  if (line.framing == Framing::kClose) line.keep_alive = request_.keep_alive = false;
  Headers headers = AnswerHeaders();
  if (answer_->spec().stream) {
    line.content_type = "text/event-stream; charset=utf-8";
    headers.emplace_back("Cache-Control", "no-cache");
    // Proxies of the nginx family would collect the stream.
    headers.emplace_back("X-Accel-Buffering", "no");
  }
  std::string head;
  AppendHead(head, line, headers);
  connection_.CountResponse(200);
  frames_.emplace(line.framing);
  bool sent = co_await connection_.Send(head);
  sent_at_ = net_.Now();
  co_return sent;
}

Async<bool> Generation::Flush(bool is_last) {
  std::string_view bytes = frames_->Write(is_last);
  sent_at_ = drained_at_;
  // Nearly every write is short and goes through at once: no second coroutine for it.
  if (bytes.size() <= Connection::kWriteBytesPerTurn) {
    Io io = connection_.TrySend(bytes);
    if (io != Io::kWait) co_return io == Io::kOk;
  }
  bool sent = co_await connection_.Send(bytes);
  co_return sent;
}

Async<bool> Generation::Complete() {
  if (frames_) {
    answer_->Finish(frames_->Begin());
    bool sent = co_await Flush(/*is_last=*/true);
    bool again = sent && request_.keep_alive;
    co_return again;
  }
  Response response;
  response.headers = AnswerHeaders();
  answer_->Finish(response.body);
  bool again = co_await connection_.Respond(request_, std::move(response));
  co_return again;
}

// The answer ends with an error: as a status if nothing was sent yet, else inside the body.
Async<bool> Generation::EndWith(Status end) {
  if (end.code() == ErrorCode::kInternal || end.code() == ErrorCode::kCorrupt) {
    Log(LogLevel::kError, "a request failed", {{"request", request_.id}, {"error", end.message()}});
  }
  CancelAll();  // the other choices: nobody will see them
  status_ = codec::HttpStatusOf(dialect_, end.code());
  if (outcome_ != metrics::Outcome::kRefused) outcome_ = OutcomeOf(end.code());
  if (frames_) {
    answer_->Fail(end, request_.id, frames_->Begin());
    bool sent = co_await Flush(/*is_last=*/true);
    bool again = sent && request_.keep_alive;
    co_return again;
  }
  if (end.code() == ErrorCode::kRateLimited && !admitted_) {
    metrics::Add(metrics::kRateLimited, account_.limits.n_concurrent > 0 &&
                                                account_.n_running >= account_.limits.n_concurrent
                                            ? metrics::RateLimit::kConcurrency
                                            : metrics::RateLimit::kTokens);
  }
  Response response = ErrorResponse(end, dialect_, request_.id);
  response.headers.emplace_back("x-served-model", net_.parts.prepare.model.name);
  bool again = co_await connection_.Respond(request_, std::move(response));
  co_return again;
}

void Generation::CancelAll() {
  for (Choice& choice : choices_) {
    if (choice.state == ChoiceState::kRunning) net_.parts.service.Cancel(choice.id);
  }
}

// Every accepted request gets its terminal event; until then the service may still write to our
// queues.
Async<bool> Generation::AwaitEnds() {
  connection_.set_wake_at(Time::Max());
  for (Choice& choice : choices_) {
    wire::TokenEvent event;
    while (choice.state != ChoiceState::kEnded) {
      if (!choice.queue->TryPop(event)) {
        choice.queue->Drained();
        co_await wake_;
      } else if (event.end) {
        choice.state = ChoiceState::kEnded;
        work_.Add(event.end->work);
      }
    }
  }
  co_return true;
}

void Generation::Settle() {
  Time now = net_.Now();
  wire::Usage usage = answer_ ? answer_->usage() : wire::Usage();
  net_.held_bytes -= n_held_bytes_;
  if (admitted_) net_.accounts.Finish(account_, usage.n_prompt + usage.n_completion);
  metrics::Add(metrics::kRequestsFinished, outcome_);
  metrics::Add(metrics::kTokens, metrics::TokenKind::kPrompt, usage.n_prompt);
  metrics::Add(metrics::kTokens, metrics::TokenKind::kCached, usage.n_cached);
  metrics::Add(metrics::kTokens, metrics::TokenKind::kCompletion, usage.n_completion);
  metrics::Add(metrics::kTokens, metrics::TokenKind::kReasoning, usage.n_reasoning);
  metrics::Observe(metrics::kE2e, (now - started_).seconds());
  if (!LogEnabled(LogLevel::kInfo)) return;
  Log(LogLevel::kInfo, "request done",
      {{"request", request_.id},
       {"tenant", account_.tenant_name},
       {"api", dialect_.name},
       {"class", ClassName(class_)},
       {"end", EndName(outcome_)},
       {"status", status_},
       {"prompt", usage.n_prompt},
       {"cached", usage.n_cached},
       {"completion", usage.n_completion},
       {"ttft", has_token_ ? first_token_ - started_ : Duration()},
       {"total", now - started_}});
  if (net_.options.trace) LogTrace();
}

void Generation::LogTrace() {
  trace_.Add(work_.zones);
  std::string zones;
  for (const ZoneRow& row : kZones) {
    Duration spent = trace_.of(row.zone);
    if (spent.ns > 0)
      fmt::format_to(std::back_inserter(zones), "{}={:.1f}us ", row.name, spent.seconds() * 1e6);
  }
  const int32_t n_cached = answer_ ? answer_->usage().n_cached : 0;
  Log(LogLevel::kInfo, "trace",
      {{"request", request_.id},
       {"end", EndName(outcome_)},
       {"zones", zones},
       {"steps", work_.n_steps},
       {"rows", work_.n_rows},
       {"replayed", work_.n_replayed},
       {"preempted", work_.n_preempted},
       {"cached_memory", std::max(0, n_cached - work_.n_forked - work_.n_loaded)},
       {"cached_fork", std::min(n_cached, work_.n_forked)},
       {"cached_store", work_.n_loaded}});
}

Generation::Snapshot Generation::Look(Time now) const {
  return {.request_id = request_.id,
          .tenant = account_.tenant_name,
          .api = dialect_.name,
          .age = now - started_,
          .n_choices = static_cast<int32_t>(choices_.size()),
          .usage = answer_ ? answer_->usage() : wire::Usage(),
          .stream = answer_ && answer_->spec().stream};
}

}  // namespace sluice::serve
