#include "wire/scripted_service.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/check.h"
#include "base/result.h"

namespace sluice::wire {
namespace {

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

void AppendTokens(const GenerateRequest& request,
                  int32_t n_done,
                  int32_t n_tokens,
                  TokenEvent& event) {
  const TokenId* first = request.script->ids.data() + n_done;
  event.tokens.assign(first, first + n_tokens);
  if (!request.sampling.logprobs) return;
  event.logprobs.reserve(event.tokens.size());
  for (TokenId token : event.tokens) event.logprobs.push_back(LogprobOf(request, token));
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
  const ScriptPlay& play = *seat.request().script;
  if (play.fault != ScriptPlay::Fault::kNone && seat.n_sent() == play.fault_after) {
    Strike(seat);
    return;
  }
  const Window window = NextWindow(seat.request(), seat.n_sent());
  const bool is_last = window.finish != FinishReason::kNone;
  if (!is_last && desk_.PauseIfFull(seat)) return;
  TokenEvent event;
  AppendTokens(seat.request(), seat.n_sent(), window.n_tokens, event);
  if (is_last) {
    desk_.End(seat, std::move(event), window.finish);
    return;
  }
  desk_.Send(seat, std::move(event));
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
      std::_Exit(kDeathStatus);
  }
}

}  // namespace sluice::wire
