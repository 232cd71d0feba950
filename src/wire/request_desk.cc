#include "wire/request_desk.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/metrics.h"

namespace sluice::wire {
namespace {

constexpr uint64_t kEmpty = 0;
constexpr uint64_t kReserved = ~uint64_t{0};
constexpr uint64_t kCancelled = uint64_t{1} << 63;

Status ShuttingDown() { return {ErrorCode::kOverloaded, "the engine is shutting down"}; }

}  // namespace

RequestDesk::RequestDesk(const Params& params)
    : n_running_max_(params.n_running_max),
      words_(static_cast<size_t>(params.n_running_max) + static_cast<size_t>(params.n_waiting_max)),
      news_(params.bell),
      timers_(params.n_running_max + params.n_waiting_max) {
  SLUICE_CHECK(params.n_running_max >= 1 && params.n_waiting_max >= 0);
  taken_.reserve(words_.size());
  seats_.reserve(words_.size());
  std::list<Seat*>& free = Of(Phase::kFree);
  for (size_t i = 0; i < words_.size(); ++i) {
    seats_.push_back(std::make_unique<Seat>(news_, static_cast<int32_t>(i)));
    seats_[i]->link_ = free.insert(free.end(), seats_[i].get());
  }
  for (int32_t slot = n_running_max_; slot-- > 0;) free_slots_.push_back(slot);
}

RequestDesk::~RequestDesk() {
  CancelAll();
  SLUICE_CHECK(idle());
}

Status RequestDesk::Submit(GenerateRequest request, EventQueue& out) {
  SLUICE_CHECK(request.id.value != kEmpty && request.id.value < kCancelled);
  SLUICE_CHECK(request.prompt != nullptr);
  SLUICE_CHECK(request.n_max >= (request.sampling.n_prompt_logprobs ? 0 : 1));

  if (n_held_.fetch_add(1, std::memory_order_acq_rel) >= static_cast<int64_t>(seats_.size())) {
    n_held_.fetch_sub(1, std::memory_order_relaxed);
    return Status(ErrorCode::kOverloaded, "too many requests are waiting for the engine");
  }
  size_t seat_idx = ReserveSeat();
  // After the reservation: either we see the closed door, or CancelAll and the steps after it see
  // the seat.
  if (closed_.load(std::memory_order_seq_cst)) {
    ReleaseSeat(seat_idx);
    return ShuttingDown();
  }
  Seat& seat = *seats_[seat_idx];
  uint64_t word = request.id.value;
  seat.request_ = std::move(request);
  seat.out_ = &out;
  out.set_room_bell({.ring = &Seat::Ring, .context = &seat});
  metrics::AddGauge(metrics::kRequestsWaiting, 1);
  words_[seat_idx].store(word, std::memory_order_release);
  news_.Add(seat);
  return Status::Ok();
}

void RequestDesk::Cancel(RequestId id) {
  if (id.value == kEmpty || id.value >= kCancelled) return;
  for (size_t i = 0; i < words_.size(); ++i) {
    uint64_t word = words_[i].load(std::memory_order_relaxed);
    if (word != id.value) continue;
    if (words_[i].compare_exchange_strong(word, id.value | kCancelled)) news_.Add(*seats_[i]);
    return;
  }
}

LoadReport RequestDesk::Load() const {
  LoadReport report;
  report.n_running = n_running_.load(std::memory_order_relaxed);
  report.n_waiting =
      std::max<int64_t>(0, n_held_.load(std::memory_order_relaxed) - report.n_running);
  report.n_running_max = n_running_max_;
  report.last_step = Time{last_step_ns_.load(std::memory_order_relaxed)};
  return report;
}

void RequestDesk::BeginStep(Time now) {
  // Here and not at the end: the first step after a long silence may itself be long.
  last_step_ns_.store(now.ns, std::memory_order_relaxed);
  TakeNews();
  WakeDue(now);
}

Time RequestDesk::EndStep(Time now) {
  metrics::Add(metrics::kEngineSteps);
  if (!ready().empty() || FirstInLine() != nullptr) return now;
  return std::min(timers_.next(), now + kHeartbeat);
}

RequestDesk::Seat* RequestDesk::FirstInLine() {
  const std::list<Seat*>& waiting = Of(Phase::kWaiting);
  return waiting.empty() || free_slots_.empty() ? nullptr : waiting.front();
}

void RequestDesk::Begin(Seat& seat) { Move(seat, Phase::kReady); }

bool RequestDesk::PauseIfFull(Seat& seat) {
  if (seat.out_->HasRoom()) return false;
  Move(seat, Phase::kPaused);
  return true;
}

void RequestDesk::NoteCached(Seat& seat, int32_t n_tokens) {
  SLUICE_CHECK(n_tokens >= 0 && n_tokens <= std::ssize(*seat.request_.prompt));
  seat.n_cached_ = n_tokens;
}

void RequestDesk::NotePrompt(Seat& seat, int32_t n_tokens) {
  seat.out_->NotePrompt({.n_done = n_tokens, .n_cached = seat.n_cached_});
}

void RequestDesk::Send(Seat& seat, TokenEvent event) {
  event.first_index = seat.n_sent_;
  if (seat.n_sent_ == 0) event.n_cached = seat.n_cached_;
  seat.n_sent_ += static_cast<int32_t>(event.tokens.size());
  seat.n_scored_ += static_cast<int32_t>(event.prompt_logprobs.size());
  metrics::Add(metrics::kGeneratedTokens, std::ssize(event.tokens));
  SLUICE_CHECK(seat.out_->TryPush(event));
}

void RequestDesk::Sleep(Seat& seat, Time due) {
  seat.due_ = due;
  Move(seat, Phase::kSleeping);
}

void RequestDesk::Wake(Seat& seat) {
  if (seat.phase_ == Phase::kSleeping) Move(seat, Phase::kReady);
}

void RequestDesk::End(Seat& seat, TokenEvent event, FinishReason finish) {
  SLUICE_CHECK(finish != FinishReason::kNone && finish != FinishReason::kError);
  EndAs(seat, std::move(event), finish, Status::Ok());
}

void RequestDesk::Fail(Seat& seat, Status status) {
  SLUICE_CHECK(!status.ok());
  EndAs(seat, TokenEvent(), FinishReason::kError, std::move(status));
}

void RequestDesk::FailBegun(const Status& status) {
  for (const Phase phase : {Phase::kReady, Phase::kSleeping, Phase::kPaused}) {
    while (!Of(phase).empty()) Fail(*Of(phase).front(), status);
  }
}

void RequestDesk::CancelAll() {
  closed_.store(true, std::memory_order_seq_cst);
  TakeNews();
  for (size_t phase = static_cast<size_t>(Phase::kWaiting); phase < kNumPhases; ++phase) {
    while (!lists_[phase].empty()) Fail(*lists_[phase].front(), ShuttingDown());
  }
}

size_t RequestDesk::ReserveSeat() {
  // n_held_ is counted down after the word is emptied, so there is a free seat for each caller.
  for (;;) {
    size_t at = next_seat_.fetch_add(1, std::memory_order_relaxed) % words_.size();
    uint64_t word = kEmpty;
    if (words_[at].compare_exchange_strong(word, kReserved, std::memory_order_acq_rel)) return at;
  }
}

void RequestDesk::ReleaseSeat(size_t seat_idx) {
  words_[seat_idx].store(kEmpty, std::memory_order_release);
  n_held_.fetch_sub(1, std::memory_order_acq_rel);
}

bool RequestDesk::IsLegalMove(Phase from, Phase to) {
  switch (to) {
    case Phase::kFree:
      return from != Phase::kFree;
    case Phase::kWaiting:
      return from == Phase::kFree;
    case Phase::kReady:
      return from == Phase::kWaiting || from == Phase::kSleeping || from == Phase::kPaused;
    case Phase::kSleeping:
    case Phase::kPaused:
      return from == Phase::kReady;
  }
  return false;
}

void RequestDesk::Move(Seat& seat, Phase to) {
  Phase from = seat.phase_;
  SLUICE_CHECK(IsLegalMove(from, to));
  seat.phase_ = to;
  Of(to).splice(Of(to).end(), Of(from), seat.link_);

  timers_.Clear(seat.seat_idx_);
  Time deadline = seat.request_.deadline;
  if (to == Phase::kSleeping) timers_.Set(seat.seat_idx_, std::min(seat.due_, deadline));
  if (to == Phase::kWaiting || to == Phase::kReady || to == Phase::kPaused) {
    timers_.Set(seat.seat_idx_, deadline);
  }

  if (from == Phase::kWaiting) metrics::AddGauge(metrics::kRequestsWaiting, -1);
  if (HoldsSlot(from) == HoldsSlot(to)) return;
  if (HoldsSlot(to)) {
    seat.slot_ = free_slots_.back();
    free_slots_.pop_back();
  } else {
    free_slots_.push_back(std::exchange(seat.slot_, -1));
  }
  const int32_t delta = HoldsSlot(to) ? 1 : -1;
  n_running_.fetch_add(delta, std::memory_order_relaxed);
  metrics::AddGauge(metrics::kRequestsRunning, delta);
}

void RequestDesk::TakeNews() {
  taken_.clear();
  news_.TakeAll([this](ReadyList::Node& node) { taken_.push_back(static_cast<Seat*>(&node)); });
  // The list gives the newest first; requests run in the order in which they came.
  for (size_t i = taken_.size(); i-- > 0;) Heed(*taken_[i]);
}

void RequestDesk::Heed(Seat& seat) {
  uint64_t word = words_[static_cast<size_t>(seat.seat_idx_)].load(std::memory_order_acquire);
  // The consumer of the request before may ring late.
  if (word == kEmpty || word == kReserved) return;
  if (seat.phase_ == Phase::kFree) Move(seat, Phase::kWaiting);
  if ((word & kCancelled) != 0) {
    Fail(seat, Status(ErrorCode::kCancelled, "the request was cancelled"));
  } else if (closed_.load(std::memory_order_relaxed)) {
    Fail(seat, ShuttingDown());
  } else if (seat.phase_ == Phase::kPaused && seat.out_->HasRoom()) {
    Move(seat, Phase::kReady);
  }
}

void RequestDesk::WakeDue(Time now) {
  while (timers_.next() <= now) {
    Seat& seat = *seats_[static_cast<size_t>(timers_.next_seat())];
    if (seat.request_.deadline <= now) {
      Fail(seat, Status(ErrorCode::kDeadlineExceeded, "the request did not end by its deadline"));
    } else {
      Move(seat, Phase::kReady);
    }
  }
}

void RequestDesk::EndAs(Seat& seat, TokenEvent event, FinishReason finish, Status status) {
  event.first_index = seat.n_sent_;
  event.end = std::make_unique<EventEnd>();
  event.end->finish = finish;
  event.end->status = std::move(status);
  event.end->usage.n_prompt = static_cast<int32_t>(seat.request_.prompt->size());
  event.end->usage.n_cached = seat.n_cached_;
  event.end->usage.n_completion = seat.n_sent_ + static_cast<int32_t>(event.tokens.size());

  metrics::Add(metrics::kGeneratedTokens, std::ssize(event.tokens));
  event.end->work = seat.work_;
  event.end->work.zones.Add(Zone::kRoute, seat.request_.waited);

  EventQueue& out = *seat.out_;
  Move(seat, Phase::kFree);
  seat.request_ = GenerateRequest();
  seat.out_ = nullptr;
  seat.n_sent_ = 0;
  seat.n_scored_ = 0;
  seat.n_cached_ = 0;
  seat.work_ = Work();
  // Before the event: whoever sees it may count on the seat.
  ReleaseSeat(static_cast<size_t>(seat.seat_idx_));
  SLUICE_CHECK(out.TryPush(event));
}

}  // namespace sluice::wire
