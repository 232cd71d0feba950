// TokenEvent: what a TokenService sends back for one request, in order. Plain data, moved from
// thread to thread.

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/containers.h"
#include "base/ids.h"
#include "base/status.h"
#include "wire/usage.h"

namespace sluice::wire {

enum class FinishReason : uint8_t {
  kNone,      // more will come
  kEnd,       // the model's end token
  kStopId,    // one of GenerateRequest::stop_ids
  kLength,    // n_max reached
  kFiltered,  // what was generated may not be shown
  kError,     // see EventEnd::status (cancellation and deadline too)
};

struct TokenLogprob {
  struct Alternative {
    TokenId token;
    float logprob;
  };
  float logprob = 0;                      // of the sampled token
  std::vector<Alternative> alternatives;  // best first, at most n_top_logprobs
};

// Present on the terminal event only.
struct EventEnd {
  FinishReason finish = FinishReason::kEnd;
  Status status;  // not OK iff finish == kError
  Usage usage;    // n_reasoning is filled at hop 10
};

struct TokenEvent {
  int32_t first_index = 0;             // of tokens[0], counted from the first generated token
  SmallVec<TokenId, 6> tokens;         // may be empty on a terminal event
  std::vector<TokenLogprob> logprobs;  // one per token if asked for, else empty
  // Of tokens of the prompt, if asked for: of those before this event are all told. The first token
  // of a prompt has none and is left out.
  std::vector<TokenLogprob> prompt_logprobs;
  std::unique_ptr<EventEnd> end;  // terminal event
  int32_t n_cached = -1;          // tokens of the prompt found in the cache; -1: not known yet
};

}  // namespace sluice::wire
