#include "wire/scripted_service.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "wire/script_player.h"

namespace sluice::wire {
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

Status ScriptedService::Submit(GenerateRequest request, EventQueue& out) {
  if (request.script == nullptr) {
    return Status(ErrorCode::kUnsupported, "no model is loaded and no script answers for one");
  }
  if (!request.script->refuse.ok()) return request.script->refuse;
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
  ScriptedEvent next = NextScriptedEvent(request, seat.n_sent(), request.n_max);
  if (next.finish != FinishReason::kNone) {
    desk_.End(seat, std::move(next.event), next.finish);
    return;
  }
  if (desk_.PauseIfFull(seat)) return;
  desk_.Send(seat, std::move(next.event));
  if (play.pace.ns > 0) desk_.Sleep(seat, now + play.pace);
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
