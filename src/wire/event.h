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
  float logprob = 0;                      // of the token itself
  int32_t rank = 0;                       // its place among all tokens, from 1: best first, by id
  std::vector<Alternative> alternatives;  // best first, at most as many as were asked for
};

// Present on the terminal event only.
struct EventEnd {
  FinishReason finish = FinishReason::kEnd;
  Status status;  // not OK iff finish == kError
  Usage usage;    // n_reasoning is filled at hop 10
  Work work;
};

// How far a prompt is; told beside the events, the latest alone.
struct PromptProgress {
  int32_t n_done = 0;    // tokens that need not run any more, cached ones included
  int32_t n_cached = 0;  // of them, found in the cache
  bool operator==(const PromptProgress&) const = default;
};

struct TokenEvent {
  int32_t first_index = 0;             // of tokens[0], counted from the first generated token
  SmallVec<TokenId, 6> tokens;         // may be empty on a terminal event
  std::vector<TokenLogprob> logprobs;  // one per token if asked for, else empty
  // The next scores of the prompt, if asked for: of its tokens from the second on, in order;
  // nothing stands before the first. All are told before or with the first token that is generated.
  std::vector<TokenLogprob> prompt_logprobs;
  std::unique_ptr<EventEnd> end;  // terminal event
  int32_t n_cached = -1;          // tokens of the prompt found in the cache; -1: not known yet
};

}  // namespace sluice::wire
