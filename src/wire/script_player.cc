#include "wire/script_player.h"

#include <algorithm>
#include <cstdlib>

namespace sluice::wire {
namespace {

// Exit status of an injected death, apart from those of a shell, a signal and a sanitizer.
constexpr int kDeathStatus = 77;

// How many tokens come next, and whether and why they are the last ones.
struct Window {
  int32_t n_tokens;
  FinishReason finish;
};

Window NextWindow(const GenerateRequest& request, int32_t n_done, int32_t n_max) {
  const ScriptPlay& play = *request.script;
  int64_t limit = std::min<int64_t>(int64_t{n_done} + play.n_per_event, n_max);
  if (play.fault != ScriptPlay::Fault::kNone) limit = std::min<int64_t>(limit, play.fault_after);
  for (int64_t pos = n_done; pos < limit; ++pos) {
    int32_t n_tokens = static_cast<int32_t>(pos - n_done);
    if (pos == static_cast<int64_t>(play.ids.size())) return {n_tokens, FinishReason::kEnd};
    for (TokenId stop : request.stop_ids) {
      if (play.ids[static_cast<size_t>(pos)] == stop) return {n_tokens, FinishReason::kStopId};
    }
  }
  return {.n_tokens = static_cast<int32_t>(limit - n_done),
          .finish = limit == n_max ? FinishReason::kLength : FinishReason::kNone};
}

}  // namespace

ScriptedEvent NextScriptedEvent(const GenerateRequest& request, int32_t n_done, int32_t n_max) {
  const Window window = NextWindow(request, n_done, n_max);
  ScriptedEvent next{.event = {}, .finish = window.finish};
  const TokenId* first = request.script->ids.data() + n_done;
  next.event.tokens.assign(first, first + window.n_tokens);
  if (!request.sampling.logprobs) return next;
  next.event.logprobs.reserve(next.event.tokens.size());
  for (TokenId token : next.event.tokens) {
    next.event.logprobs.push_back(ScriptedLogprob(request, token, request.sampling.n_top_logprobs));
  }
  return next;
}

// The token itself is the best alternative; the others are its neighbours, on the side where every
// vocabulary has them.
TokenLogprob ScriptedLogprob(const GenerateRequest& request, TokenId token, int32_t n_top) {
  // Eighths are exact in f32 and short in JSON.
  float made_up = -static_cast<float>(1 + token.value % 7) / 8;
  TokenLogprob result{
      .logprob = request.script->logprob.value_or(made_up), .rank = 1, .alternatives = {}};
  int32_t step = token.value >= n_top ? -1 : 1;
  result.alternatives.reserve(static_cast<size_t>(n_top));
  for (int32_t i = 0; i < n_top; ++i) {
    result.alternatives.push_back({.token = TokenId(token.value + i * step),
                                   .logprob = result.logprob - static_cast<float>(i)});
  }
  return result;
}

void Die() { std::_Exit(kDeathStatus); }

}  // namespace sluice::wire
