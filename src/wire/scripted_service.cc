#include "wire/scripted_service.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/result.h"
#include "wire/script_player.h"

namespace sluice::wire {
namespace {

// Scores of a prompt come in pieces, as from an engine whose chunks are short.
constexpr int32_t kScoresPerEvent = 16;

void AppendScores(const RequestDesk::Seat& seat, TokenEvent& event) {
  const GenerateRequest& request = seat.request();
  const int32_t n = std::min(seat.n_unscored(), kScoresPerEvent);
  const int32_t n_top = request.sampling.n_prompt_logprobs.value_or(0);
  const auto first = request.prompt->begin() + 1 + seat.n_scored();
  for (auto token = first; token != first + n; ++token) {
    event.prompt_logprobs.push_back(ScriptedLogprob(request, *token, n_top));
  }
}

}  // namespace

ScriptedService::ScriptedService(const Params& params)
    : desk_({.n_running_max = params.max_running,
             .n_waiting_max = params.max_waiting,
             .bell = params.bell}) {}

Time ScriptedService::Step(Time now) {
  desk_.BeginStep(now);
  while (Seat* seat = desk_.FirstInLine()) {
    const ScriptPlay& play = *seat->request().script;
    const Time due = now + play.first + play.pace;
    desk_.Begin(*seat);
    const auto n_prompt = static_cast<int32_t>(seat->request().prompt->size());
    desk_.NoteCached(*seat, std::min(play.n_cached, n_prompt));
    if (due > now) desk_.Sleep(*seat, due);
  }
  for (auto at = desk_.ready().begin(); at != desk_.ready().end();) {
    Seat& seat = **at++;  // Advance may move it to another list
    Advance(seat, now);
  }
  return desk_.EndStep(now);
}

Status ScriptedService::Check(const GenerateRequest& request) const {
  if (request.script == nullptr) {
    return Status(ErrorCode::kUnsupported, "no model is loaded and no script answers for one");
  }
  return request.script->refuse;
}

Status ScriptedService::Submit(GenerateRequest request, EventQueue& out) {
  SLUICE_TRY(Check(request));
  SLUICE_CHECK(request.script->n_per_event >= 1);
  return desk_.Submit(std::move(request), out);
}

void ScriptedService::Advance(Seat& seat, Time now) {
  const GenerateRequest& request = seat.request();
  const ScriptPlay& play = *request.script;
  if (FaultStrikes(play, seat.n_sent())) {
    Strike(seat);
    return;
  }
  // The last piece of the prompt comes with the first tokens.
  const bool is_in_prompt = seat.n_unscored() > kScoresPerEvent;
  ScriptedEvent next;
  if (!is_in_prompt) next = NextScriptedEvent(request, seat.n_sent(), request.n_max);
  const bool is_last = next.finish != FinishReason::kNone;
  if (!is_last && desk_.PauseIfFull(seat)) return;
  AppendScores(seat, next.event);
  if (is_last) {
    desk_.End(seat, std::move(next.event), next.finish);
    return;
  }
  desk_.Send(seat, std::move(next.event));
  if (play.pace.ns > 0 && !is_in_prompt) desk_.Sleep(seat, now + play.pace);
}

void ScriptedService::Strike(Seat& seat) {
  switch (seat.request().script->fault) {
    case ScriptPlay::Fault::kNone:
      break;
    case ScriptPlay::Fault::kFail:
      desk_.Fail(seat, {ErrorCode::kInternal, "the engine failed, as its script demands"});
      break;
    case ScriptPlay::Fault::kSick:
      desk_.Fail(seat, {ErrorCode::kInternal, "the sequence fell sick, as its script demands"});
      break;
    case ScriptPlay::Fault::kHang:
      desk_.Sleep(seat, Time::Max());
      break;
    case ScriptPlay::Fault::kDie:
      Die();
  }
}

}  // namespace sluice::wire
