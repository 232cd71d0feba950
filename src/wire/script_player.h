// The next event of a scripted answer (spec script-format.md §1). Whoever plays one, a service
// without an engine or an engine, asks here what comes and sends it. Pure functions.

#pragma once

#include <cstdint>

#include "wire/event.h"
#include "wire/request.h"

namespace sluice::wire {

struct ScriptedEvent {
  TokenEvent event;
  FinishReason finish = FinishReason::kNone;  // not kNone: it is the terminal one
};

// What follows n_done tokens of a request with a script, whose fault does not strike there. n_max:
// tokens to generate at most. The limit and the stops cut before the end token; a fault to come
// cuts the event at its place.
ScriptedEvent NextScriptedEvent(const GenerateRequest& request, int32_t n_done, int32_t n_max);

// What is told of a token, a scripted one or one of the prompt, with n_top alternatives. A function
// of request and token alone.
TokenLogprob ScriptedLogprob(const GenerateRequest& request, TokenId token, int32_t n_top);

// Whether the fault of the script strikes behind n_done tokens.
inline bool FaultStrikes(const ScriptPlay& script, int32_t n_done) {
  return script.fault != ScriptPlay::Fault::kNone && n_done == script.fault_after;
}

// Ends the process at once, as an injected death demands.
[[noreturn]] void Die();

}  // namespace sluice::wire
