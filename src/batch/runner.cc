#include "batch/runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/limits.h"
#include "base/log.h"
#include "batch/output.h"
#include "batch/row.h"
#include "codec/answer.h"
#include "wire/event_queue.h"

namespace sluice::batch {
namespace {

// Rows prepared in one Step: events of those that run are looked at in between.
constexpr int kStartsPerStep = 4;

// How often a row is tried that the service has no room for. It cannot happen while the service's
// limits are those that n_requests_max was made from.
constexpr int32_t kTriesMax = 5;
constexpr Duration kLeastRetry = Duration::Millis(100);

// What a token of an answer takes at most while it is collected: text, and log probabilities.
constexpr int64_t kTokenBytes = 8;
constexpr int64_t kLogprobBytes = 160;

// What a row may hold: its prompt, and its answers before the limit of one ends them.
int64_t HeldBytes(const codec::Prepared& prepared) {
  const codec::AnswerSpec& answer = prepared.answer;
  const int64_t n_per_token =
      answer.logprobs ? kLogprobBytes * (1 + answer.n_top_logprobs) : kTokenBytes;
  const int64_t n_prompt = std::ssize(*prepared.generate.prompt);
  const std::optional<int32_t>& n_top = prepared.generate.sampling.n_prompt_logprobs;
  const int64_t n_scores = n_top ? n_prompt * kLogprobBytes * (1 + *n_top) : 0;
  const int64_t n_answers =
      std::min((n_per_token * prepared.generate.n_max + n_scores) * answer.n_choices,
               limits::kMaxHeldAnswerBytes);
  return n_prompt * int64_t{sizeof(TokenId)} + n_answers;
}

}  // namespace

struct Runner::Run : ReadyList::Node {
  enum class ChoiceState : uint8_t {
    kRunning,
    kStopped,  // the answer is complete and the request cancelled; its end is still to come
    kEnded,
  };
  struct Choice {
    RequestId id;
    std::unique_ptr<wire::EventQueue> queue;
    ChoiceState state = ChoiceState::kRunning;
  };

  bool has_ended() const {
    return std::ranges::all_of(choices,
                               [](const Choice& c) { return c.state == ChoiceState::kEnded; });
  }

  uint32_t line_idx = 0;
  int32_t n_tries = 0;
  RowNames names;
  Row row;
  RowSeeds seeds;
  codec::Prepared prepared;
  int64_t n_held_bytes = 0;
  std::optional<codec::Answer> answer;
  std::vector<Choice> choices;
  Status failure;  // why the row gets an error instead of its answer
  std::list<std::unique_ptr<Run>>::iterator self;
  bool is_over = false;  // it has its line
};

Runner::Runner(const Params& params) : params_(params) { SLUICE_CHECK(params.n_requests_max > 0); }
Runner::~Runner() { SLUICE_CHECK(running_.empty()); }

Time Runner::Step(Time now) {
  TakeNews();
  for (Run* run : news_) Advance(*run, now);
  // One that was listed before its end came may be listed once more: its node must stay until then.
  std::erase_if(ended_, [](const std::unique_ptr<Run>& run) {
    return !run->listed.load(std::memory_order_acquire);
  });
  const bool has_more = StartSome(now);
  SyncIfDue(now);
  return has_more ? now : NextDue();
}

bool Runner::done() const { return failure_.ok() ? is_over() && !is_dirty_ : running_.empty(); }

bool Runner::is_over() const {
  return running_.empty() && next_ == nullptr && retries_.empty() &&
         next_idx_ == params_.index.order().size();
}

void Runner::TakeNews() {
  news_.clear();
  params_.ready.TakeAll([this](ReadyList::Node& node) {
    Run& run = static_cast<Run&>(node);
    if (!run.is_over) news_.push_back(&run);
  });
}

// True: there is more to start at once.
bool Runner::StartSome(Time now) {
  for (int i = 0; i < kStartsPerStep; ++i) {
    if (!failure_.ok() || n_requests_ >= params_.n_requests_max) return false;
    if (next_ == nullptr) {
      const std::optional<Retry> row = PickRow(now);
      if (!row) return false;
      next_ = Prepare(*row);
    }
    if (next_ == nullptr) continue;  // it was refused and has its line
    if (!HasRoom(*next_)) return false;
    Submit(std::move(next_), now);
  }
  return true;
}

std::optional<Runner::Retry> Runner::PickRow(Time now) {
  if (!retries_.empty() && retries_.front().due <= now) {
    const Retry row = retries_.front();
    retries_.pop_front();
    return row;
  }
  const std::span<const uint32_t> order = params_.index.order();
  if (next_idx_ == order.size()) return std::nullopt;
  return Retry{.line_idx = order[next_idx_++], .n_tries = 0, .due = now};
}

// Null: the row is no request, or its API refuses it; then its line is written.
std::unique_ptr<Runner::Run> Runner::Prepare(const Retry& picked) {
  auto run = std::make_unique<Run>();
  run->line_idx = picked.line_idx;
  run->n_tries = picked.n_tries + 1;
  run->names = NamesOf(params_.index.batch_id(), picked.line_idx);
  const std::string_view line = params_.index.line(picked.line_idx);
  run->row = ReadRow(line);
  Row& row = run->row;
  if (row.fault_code.empty() && params_.index.is_duplicate(picked.line_idx)) {
    row.fault_code = "duplicate_custom_id";
    row.fault = "an earlier line has the same custom_id";
  }
  if (!row.fault_code.empty()) {
    Append(ToText(FaultLine{.names = run->names,
                            .custom_id = row.custom_id,
                            .code = row.fault_code,
                            .message = row.fault}),
           /*is_failed=*/true);
    return nullptr;
  }
  if (std::ssize(row.body) > params_.n_body_bytes_max) {
    run->failure = {ErrorCode::kTooLarge,
                    fmt::format("the body exceeds {} bytes, the limit", params_.n_body_bytes_max)};
  } else {
    Result<codec::Prepared> prepared = codec::Prepare(*row.dialect, row.body, params_.context);
    run->failure = prepared ? Status::Ok() : std::move(prepared.error());
    if (prepared) run->prepared = std::move(*prepared);
  }
  row.body = std::string();
  if (!run->failure.ok()) {
    WriteError(*run);
    return nullptr;
  }
  // Nobody reads along, so a stream is answered like anything else.
  if (std::exchange(run->prepared.answer.stream, false)) {
    run->prepared.ignored_fields.push_back("stream");
  }
  run->seeds = SeedsOf(line);
  run->n_held_bytes = HeldBytes(run->prepared);
  return run;
}

bool Runner::HasRoom(const Run& run) const {
  if (running_.empty()) return true;
  return n_requests_ + run.prepared.answer.n_choices <= params_.n_requests_max &&
         n_held_bytes_ + run.n_held_bytes <= limits::kMaxBatchHeldBytes;
}

void Runner::Submit(std::unique_ptr<Run> owned, Time now) {
  Run& run = *owned;
  run.self = running_.insert(running_.end(), std::move(owned));
  n_held_bytes_ += run.n_held_bytes;
  wire::GenerateRequest& first = run.prepared.generate;
  first.deadline = now + params_.request_timeout;
  if (!first.sampling.seed) first.sampling.seed = run.seeds.sampling;
  // Stop strings are found here, so with them every token late is a token too many.
  const wire::EventQueue::Tell tell = run.prepared.answer.stops.empty()
                                          ? wire::EventQueue::Tell::kHalfFull
                                          : wire::EventQueue::Tell::kEachEvent;
  for (int32_t i = 0; i < run.prepared.answer.n_choices; ++i) {
    wire::GenerateRequest request = first;
    request.id = RequestId(++n_submitted_);
    // Choices with one seed would all be the same.
    *request.sampling.seed += static_cast<uint64_t>(i);
    Run::Choice choice{.id = request.id,
                       .queue = std::make_unique<wire::EventQueue>(params_.ready, run, tell)};
    run.failure = params_.service.Submit(std::move(request), *choice.queue);
    if (!run.failure.ok()) break;
    run.choices.push_back(std::move(choice));
    ++n_requests_;
  }
  run.answer.emplace(*run.row.dialect, params_.context.format, std::move(run.prepared.answer),
                     codec::AnswerIdentity{.id = run.names.answer_id,
                                           .created = params_.clock.Wall(),
                                           .fingerprint = params_.fingerprint,
                                           .entropy = run.seeds.call_ids});
  Advance(run, now);
}

void Runner::Advance(Run& run, Time now) {
  const Status status = Drain(run);
  if (run.failure.ok() && !status.ok()) run.failure = status;
  const bool is_lost = !run.failure.ok() || !failure_.ok();
  for (Run::Choice& choice : run.choices) {
    if (!is_lost || choice.state != Run::ChoiceState::kRunning) continue;
    choice.state = Run::ChoiceState::kStopped;
    params_.service.Cancel(choice.id);
  }
  if (run.has_ended()) Finish(run, now);
}

// Takes what is there from every choice. Not OK: the row's answer is lost.
Status Runner::Drain(Run& run) {
  std::string nothing;  // the encoder of a whole answer has nothing to say before its end
  wire::TokenEvent event;
  for (size_t i = 0; i < run.choices.size(); ++i) {
    Run::Choice& choice = run.choices[i];
    while (choice.state != Run::ChoiceState::kEnded && choice.queue->TryPop(event)) {
      const bool was_running = choice.state == Run::ChoiceState::kRunning;
      if (was_running) totals_.n_generated += std::ssize(event.tokens);
      if (event.end) {
        choice.state = Run::ChoiceState::kEnded;
        --n_requests_;
      }
      if (!run.failure.ok() || !failure_.ok()) continue;  // only its end is waited for
      if (was_running && event.end && !event.end->status.ok()) return event.end->status;
      const auto next = run.answer->OnEvent(static_cast<int32_t>(i), event, nothing);
      if (next != codec::Answer::Next::kCancel) continue;
      choice.state = Run::ChoiceState::kStopped;
      params_.service.Cancel(choice.id);
    }
    if (choice.state != Run::ChoiceState::kEnded) choice.queue->Drained();
  }
  if (run.failure.ok() && run.answer->held_bytes() > limits::kMaxHeldAnswerBytes) {
    return {ErrorCode::kTooLarge,
            fmt::format("the answer exceeds {} bytes; ask for fewer log probabilities or fewer "
                        "tokens",
                        limits::kMaxHeldAnswerBytes)};
  }
  return Status::Ok();
}

// The row leaves: with its line, or to be tried again, or, when nothing can be written, without.
void Runner::Finish(Run& run, Time now) {
  const bool is_full = run.failure.code() == ErrorCode::kOverloaded && run.n_tries < kTriesMax;
  if (failure_.ok() && is_full) {
    const Duration wait = std::max(run.failure.retry_after(), kLeastRetry);
    retries_.push_back({.line_idx = run.line_idx, .n_tries = run.n_tries, .due = now + wait});
  } else if (failure_.ok() && run.failure.ok()) {
    std::string body;
    run.answer->Finish(body);
    const wire::Usage usage = run.answer->usage();
    totals_.n_prompt += usage.n_prompt;
    totals_.n_cached += usage.n_cached;
    totals_.n_completion += usage.n_completion;
    Append(ToText(ResponseLine{.names = run.names,
                               .custom_id = run.row.custom_id,
                               .body = body,
                               .ignored_fields = run.prepared.ignored_fields}),
           /*is_failed=*/false);
  } else if (failure_.ok()) {
    WriteError(run);
  }
  n_held_bytes_ -= run.n_held_bytes;
  run.is_over = true;
  run.answer.reset();
  run.prepared = {};
  ended_.splice(ended_.end(), running_, run.self);
}

void Runner::WriteError(const Run& run) {
  const codec::Dialect& dialect = *run.row.dialect;
  const Status& status = run.failure;
  if (status.code() == ErrorCode::kInternal || status.code() == ErrorCode::kCorrupt) {
    Log(LogLevel::kError, "a row failed",
        {{"row", run.names.line_id}, {"error", status.message()}});
  }
  Append(ToText(ResponseLine{.names = run.names,
                             .custom_id = run.row.custom_id,
                             .status = codec::HttpStatusOf(dialect, status.code()),
                             .body = dialect.error_body(status, run.names.request_id),
                             .ignored_fields = run.prepared.ignored_fields}),
         /*is_failed=*/true);
}

void Runner::Append(const std::string& line, bool is_failed) {
  if (!failure_.ok()) return;
  Status status = params_.out.Append(std::as_bytes(std::span(line)));
  if (!status.ok()) return Fail(std::move(status));
  ++totals_.n_done;
  if (is_failed) ++totals_.n_failed;
  is_dirty_ = true;
}

// A sync waits for the disk, so many lines share one; the last line does not wait for others.
void Runner::SyncIfDue(Time now) {
  if (!failure_.ok() || !is_dirty_ || (now < next_sync_ && !is_over())) return;
  is_dirty_ = false;
  next_sync_ = now + kSyncPeriod;
  Status status = params_.out.Sync();
  if (!status.ok()) Fail(std::move(status));
}

Time Runner::NextDue() const {
  const Time sync_due = is_dirty_ ? next_sync_ : Time::Max();
  return retries_.empty() ? sync_due : std::min(sync_due, retries_.front().due);
}

// Nothing more can be written: what runs ends, and what comes of it is lost.
void Runner::Fail(Status status) {
  failure_ = std::move(status);
  next_.reset();
  for (const std::unique_ptr<Run>& run : running_) {
    for (Run::Choice& choice : run->choices) {
      if (choice.state != Run::ChoiceState::kRunning) continue;
      choice.state = Run::ChoiceState::kStopped;
      params_.service.Cancel(choice.id);
    }
  }
}

}  // namespace sluice::batch
