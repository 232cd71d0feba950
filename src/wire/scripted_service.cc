#include "wire/scripted_service.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/check.h"
#include "base/metrics.h"

namespace sluice::wire {
namespace {

constexpr uint64_t kEmpty = 0;
constexpr uint64_t kReserved = ~uint64_t{0};
constexpr uint64_t kCancelled = uint64_t{1} << 63;

// Exit status of an injected death, apart from those of a shell, a signal and a sanitizer.
constexpr int kDeathStatus = 77;

// The next event: how many tokens from n_done on, and whether and why it is the last one. The
// limit and the stops cut before the end token, and a fault cuts the event at its place.
struct Window {
  int32_t n_tokens;
  FinishReason finish;
};

Window NextWindow(const GenerateRequest& request, int32_t n_done) {
  const ScriptPlay& play = *request.script;
  int64_t limit = std::min<int64_t>(int64_t{n_done} + play.n_per_event, request.n_max);
  if (play.fault != ScriptPlay::Fault::kNone) limit = std::min<int64_t>(limit, play.fault_after);
  for (int64_t pos = n_done; pos < limit; ++pos) {
    int32_t n_tokens = static_cast<int32_t>(pos - n_done);
    if (pos == static_cast<int64_t>(play.ids.size())) return {n_tokens, FinishReason::kEnd};
    for (TokenId stop : request.stop_ids) {
      if (play.ids[static_cast<size_t>(pos)] == stop) return {n_tokens, FinishReason::kStopId};
    }
  }
  return {.n_tokens = static_cast<int32_t>(limit - n_done),
          .finish = limit == request.n_max ? FinishReason::kLength : FinishReason::kNone};
}

// A function of request and token alone. The token itself is the best alternative; the others are
// its neighbours, on the side where every vocabulary has them.
TokenLogprob LogprobOf(const GenerateRequest& request, TokenId token) {
  // Eighths are exact in f32 and short in JSON.
  float made_up = -static_cast<float>(1 + token.value % 7) / 8;
  TokenLogprob result{.logprob = request.script->logprob.value_or(made_up), .alternatives = {}};
  int32_t n_top = request.sampling.n_top_logprobs;
  int32_t step = token.value >= n_top ? -1 : 1;
  result.alternatives.reserve(static_cast<size_t>(n_top));
  for (int32_t i = 0; i < n_top; ++i) {
    result.alternatives.push_back({.token = TokenId(token.value + i * step),
                                   .logprob = result.logprob - static_cast<float>(i)});
  }
  return result;
}

void AppendTokens(const GenerateRequest& request, int32_t n_tokens, TokenEvent& event) {
  const TokenId* first = request.script->ids.data() + event.first_index;
  event.tokens.assign(first, first + n_tokens);
  if (!request.sampling.logprobs) return;
  event.logprobs.reserve(event.tokens.size());
  for (TokenId token : event.tokens) event.logprobs.push_back(LogprobOf(request, token));
}

}  // namespace

// Between release of its word and the next reservation a seat belongs to nobody; then to the Submit
// that reserved it; from publication on to the owner. The node and what is constant: to everybody.
struct ScriptedService::Seat : ReadyList::Node {
  Seat(ReadyList& the_news, int32_t idx) : news(the_news), seat_idx(idx) {}

  static void Ring(void* seat) {
    Seat& self = *static_cast<Seat*>(seat);
    self.news.Add(self);
  }

  // Constant after construction.
  ReadyList& news;
  const int32_t seat_idx;
  std::list<Seat*>::iterator link;  // in the list of its phase

  GenerateRequest request;
  EventQueue* out = nullptr;
  int32_t n_done = 0;  // tokens sent
  Time due;            // kSleeping: of the next event
  Phase phase = Phase::kFree;
};

ScriptedService::ScriptedService(const Params& params)
    : max_running_(params.max_running),
      words_(static_cast<size_t>(params.max_running) + static_cast<size_t>(params.max_waiting)),
      news_(params.bell),
      timers_(params.max_running + params.max_waiting) {
  SLUICE_CHECK(params.max_running >= 1 && params.max_waiting >= 0);
  taken_.reserve(words_.size());
  seats_.reserve(words_.size());
  std::list<Seat*>& free = Of(Phase::kFree);
  for (size_t i = 0; i < words_.size(); ++i) {
    seats_.push_back(std::make_unique<Seat>(news_, static_cast<int32_t>(i)));
    seats_[i]->link = free.insert(free.end(), seats_[i].get());
  }
}

ScriptedService::~ScriptedService() {
  CancelAll();
  SLUICE_CHECK(idle());
}

Time ScriptedService::Step(Time now) {
  TakeNews();
  WakeDue(now);
  Admit(now);
  std::list<Seat*>& ready = Of(Phase::kReady);
  for (auto at = ready.begin(); at != ready.end();) {
    Seat& seat = **at++;  // Advance may move it to another list
    Advance(seat, now);
  }
  metrics::Add(metrics::kEngineSteps);
  last_step_ns_.store(now.ns, std::memory_order_relaxed);

  bool can_admit = !Of(Phase::kWaiting).empty() && n_running_.load() < max_running_;
  if (!ready.empty() || can_admit) return now;
  return std::min(timers_.next(), now + kHeartbeat);
}

Status ScriptedService::Submit(GenerateRequest request, EventQueue& out) {
  if (request.script == nullptr) {
    return Status(ErrorCode::kUnsupported, "no model is loaded and no script answers for one");
  }
  if (!request.script->refuse.ok()) return request.script->refuse;
  SLUICE_CHECK(request.id.value != kEmpty && request.id.value < kCancelled);
  SLUICE_CHECK(request.prompt != nullptr && request.n_max >= 1 && request.script->n_per_event >= 1);

  if (n_held_.fetch_add(1, std::memory_order_acq_rel) >= static_cast<int64_t>(seats_.size())) {
    n_held_.fetch_sub(1, std::memory_order_relaxed);
    return Status(ErrorCode::kOverloaded, "too many requests are waiting for the engine");
  }
  size_t seat_idx = ReserveSeat();
  // After the reservation: either we see the closed door, or CancelAll and the Steps after it see
  // the seat.
  if (closed_.load(std::memory_order_seq_cst)) {
    ReleaseSeat(seat_idx);
    return Status(ErrorCode::kOverloaded, "the engine is shutting down");
  }
  Seat& seat = *seats_[seat_idx];
  uint64_t word = request.id.value;
  seat.request = std::move(request);
  seat.out = &out;
  out.set_room_bell({.ring = &Seat::Ring, .context = &seat});
  metrics::AddGauge(metrics::kRequestsWaiting, 1);
  words_[seat_idx].store(word, std::memory_order_release);
  news_.Add(seat);
  return Status::Ok();
}

void ScriptedService::Cancel(RequestId id) {
  if (id.value == kEmpty || id.value >= kCancelled) return;
  for (size_t i = 0; i < words_.size(); ++i) {
    uint64_t word = words_[i].load(std::memory_order_relaxed);
    if (word != id.value) continue;
    if (words_[i].compare_exchange_strong(word, id.value | kCancelled)) news_.Add(*seats_[i]);
    return;
  }
}

LoadReport ScriptedService::Load() const {
  LoadReport report;
  report.n_running = n_running_.load(std::memory_order_relaxed);
  report.n_waiting =
      std::max<int64_t>(0, n_held_.load(std::memory_order_relaxed) - report.n_running);
  report.n_running_max = max_running_;
  report.last_step = Time{last_step_ns_.load(std::memory_order_relaxed)};
  return report;
}

void ScriptedService::CancelAll() {
  closed_.store(true, std::memory_order_seq_cst);
  TakeNews();
  for (size_t phase = static_cast<size_t>(Phase::kWaiting); phase < kNumPhases; ++phase) {
    while (!lists_[phase].empty()) {
      EndWith(*lists_[phase].front(), ErrorCode::kOverloaded, "the engine is shutting down");
    }
  }
}

size_t ScriptedService::ReserveSeat() {
  // n_held_ is counted down after the word is emptied, so there is a free seat for each caller.
  for (;;) {
    size_t at = next_seat_.fetch_add(1, std::memory_order_relaxed) % words_.size();
    uint64_t word = kEmpty;
    if (words_[at].compare_exchange_strong(word, kReserved, std::memory_order_acq_rel)) return at;
  }
}

void ScriptedService::ReleaseSeat(size_t seat_idx) {
  words_[seat_idx].store(kEmpty, std::memory_order_release);
  n_held_.fetch_sub(1, std::memory_order_acq_rel);
}

bool ScriptedService::IsLegalMove(Phase from, Phase to) {
  switch (to) {
    case Phase::kFree:
      return from != Phase::kFree;
    case Phase::kWaiting:
      return from == Phase::kFree;
    case Phase::kReady:
      return from == Phase::kWaiting || from == Phase::kSleeping || from == Phase::kPaused;
    case Phase::kSleeping:
      return from == Phase::kWaiting || from == Phase::kReady;
    case Phase::kPaused:
      return from == Phase::kReady;
    case Phase::kHung:
      return from == Phase::kReady;
  }
  return false;
}

void ScriptedService::Move(Seat& seat, Phase to) {
  Phase from = seat.phase;
  SLUICE_CHECK(IsLegalMove(from, to));
  seat.phase = to;
  Of(to).splice(Of(to).end(), Of(from), seat.link);

  timers_.Clear(seat.seat_idx);
  Time deadline = seat.request.deadline;
  if (to == Phase::kSleeping) timers_.Set(seat.seat_idx, std::min(seat.due, deadline));
  if (to == Phase::kWaiting || to == Phase::kPaused || to == Phase::kHung) {
    timers_.Set(seat.seat_idx, deadline);
  }

  if (from == Phase::kWaiting) metrics::AddGauge(metrics::kRequestsWaiting, -1);
  int32_t delta = static_cast<int32_t>(HoldsSlot(to)) - static_cast<int32_t>(HoldsSlot(from));
  if (delta == 0) return;
  n_running_.fetch_add(delta, std::memory_order_relaxed);
  metrics::AddGauge(metrics::kRequestsRunning, delta);
}

void ScriptedService::TakeNews() {
  taken_.clear();
  news_.TakeAll([this](ReadyList::Node& node) { taken_.push_back(static_cast<Seat*>(&node)); });
  // The list gives the newest first; requests run in the order in which they came.
  for (size_t i = taken_.size(); i-- > 0;) Heed(*taken_[i]);
}

void ScriptedService::Heed(Seat& seat) {
  uint64_t word = words_[static_cast<size_t>(seat.seat_idx)].load(std::memory_order_acquire);
  // The consumer of the request before may ring late.
  if (word == kEmpty || word == kReserved) return;
  if (seat.phase == Phase::kFree) Move(seat, Phase::kWaiting);
  if ((word & kCancelled) != 0) {
    EndWith(seat, ErrorCode::kCancelled, "the request was cancelled");
  } else if (closed_.load(std::memory_order_relaxed)) {
    EndWith(seat, ErrorCode::kOverloaded, "the engine is shutting down");
  } else if (seat.phase == Phase::kPaused && seat.out->HasRoom()) {
    Move(seat, Phase::kReady);
  }
}

void ScriptedService::WakeDue(Time now) {
  while (timers_.next() <= now) {
    Seat& seat = *seats_[static_cast<size_t>(timers_.next_seat())];
    if (seat.request.deadline <= now) {
      EndWith(seat, ErrorCode::kDeadlineExceeded, "the request did not end by its deadline");
    } else {
      Move(seat, Phase::kReady);
    }
  }
}

void ScriptedService::Admit(Time now) {
  std::list<Seat*>& waiting = Of(Phase::kWaiting);
  while (!waiting.empty() && n_running_.load(std::memory_order_relaxed) < max_running_) {
    Seat& seat = *waiting.front();
    seat.n_done = 0;
    seat.due = now + seat.request.script->first + seat.request.script->pace;
    Move(seat, seat.due <= now ? Phase::kReady : Phase::kSleeping);
  }
}

void ScriptedService::Advance(Seat& seat, Time now) {
  if (seat.request.deadline <= now) {
    EndWith(seat, ErrorCode::kDeadlineExceeded, "the request did not end by its deadline");
    return;
  }
  const ScriptPlay& play = *seat.request.script;
  if (play.fault != ScriptPlay::Fault::kNone && seat.n_done == play.fault_after) {
    Strike(seat);
    return;
  }
  Window window = NextWindow(seat.request, seat.n_done);
  TokenEvent event;
  event.first_index = seat.n_done;
  AppendTokens(seat.request, window.n_tokens, event);
  if (window.finish != FinishReason::kNone) {
    End(seat, std::move(event), window.finish, Status::Ok());
    return;
  }
  if (!seat.out->TryPush(event)) {
    Move(seat, Phase::kPaused);
    return;
  }
  seat.n_done += window.n_tokens;
  if (play.pace.ns > 0) {
    seat.due = now + play.pace;
    Move(seat, Phase::kSleeping);
  }
}

void ScriptedService::Strike(Seat& seat) {
  switch (seat.request.script->fault) {
    case ScriptPlay::Fault::kNone:
      break;
    case ScriptPlay::Fault::kFail:
      EndWith(seat, ErrorCode::kInternal, "the engine failed, as its script demands");
      break;
    case ScriptPlay::Fault::kSick:
      EndWith(seat, ErrorCode::kInternal, "the sequence fell sick, as its script demands");
      break;
    case ScriptPlay::Fault::kHang:
      Move(seat, Phase::kHung);
      break;
    case ScriptPlay::Fault::kDie:
      std::_Exit(kDeathStatus);
  }
}

void ScriptedService::EndWith(Seat& seat, ErrorCode code, const char* message) {
  TokenEvent event;
  event.first_index = seat.n_done;
  End(seat, std::move(event), FinishReason::kError, Status(code, message));
}

void ScriptedService::End(Seat& seat, TokenEvent event, FinishReason finish, Status status) {
  event.end = std::make_unique<EventEnd>();
  event.end->finish = finish;
  event.end->status = std::move(status);
  event.end->usage.n_prompt = static_cast<int32_t>(seat.request.prompt->size());
  event.end->usage.n_completion = seat.n_done + static_cast<int32_t>(event.tokens.size());

  EventQueue& out = *seat.out;
  Move(seat, Phase::kFree);
  seat.request = GenerateRequest();
  seat.out = nullptr;
  seat.n_done = 0;
  // Before the event: whoever sees it may count on the seat.
  ReleaseSeat(static_cast<size_t>(seat.seat_idx));
  SLUICE_CHECK(out.TryPush(event));
}

}  // namespace sluice::wire
