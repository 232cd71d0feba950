// GenerateRequest: what hop 3 hands to a TokenService. Tokens only: no text, no file, no pointer to
// anything outside. Plain data, moved from thread to thread.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/containers.h"
#include "base/ids.h"
#include "base/status.h"
#include "base/time.h"

namespace sluice::wire {

struct LogitBias {
  TokenId token;
  float bias;  // [-100, 100]
};

struct SamplingParams {
  double temperature = 1.0;
  double top_p = 1.0;
  double frequency_penalty = 0.0;
  double presence_penalty = 0.0;
  double repetition_penalty = 1.0;  // (0, 2]: of what is in the prompt or the output
  double min_p = 0.0;               // [0, 1]: of the largest probability
  int32_t top_k = 0;                // 0: all
  int32_t n_min = 0;                // tokens before the end token or a stop id may come
  std::optional<uint64_t> seed;
  bool logprobs = false;
  int32_t n_top_logprobs = 0;  // [0, 20], alternatives per token
  // The tokens of the prompt are scored, each by the tokens before it, with that many alternatives,
  // [0, 20], of the model's own distribution; absent: they are not.
  std::optional<int32_t> n_prompt_logprobs;
  std::vector<LogitBias> logit_bias;
};

// Who comes first where requests wait: strictly by class (spec pd-and-routing.md §4.8).
enum class RequestClass : uint8_t { kInteractive, kDefault, kBulk };
inline constexpr int32_t kNumRequestClasses = 3;

// One scripted answer (spec script-format.md): what the model "samples", with its timing and its
// injected fault. Chosen in request preparation; the token source plays it and knows nothing of the
// file.
struct ScriptPlay {
  enum class Fault : uint8_t { kNone, kFail, kSick, kHang, kDie };

  std::vector<TokenId> ids;  // without the end token, which the source appends
  int32_t n_per_event = 1;   // tokens that come at once, as from accepted drafts
  Duration pace;             // before each event
  Duration first;            // before the first token
  Fault fault = Fault::kNone;
  int32_t fault_after = 0;       // tokens; a fault that the output does not reach has no effect
  std::optional<float> logprob;  // of each scripted token, if asked for
  int32_t n_cached = 0;          // tokens of the prompt, or all, that it says it found in a cache
  Status refuse;                 // not OK: Submit answers this and nothing is generated
};

struct GenerateRequest {
  RequestId id;
  TenantId tenant;
  KeyId key;  // among the requests of one class, keys take turns
  RequestClass request_class = RequestClass::kDefault;
  Time deadline = Time::Max();  // then the request ends with kDeadlineExceeded
  Duration waited;              // in the router, before a service got it; for traces
  std::shared_ptr<const std::vector<TokenId>> prompt;  // the choices of one request share it
  // Tokens to generate at most, >= 1; 0 if the prompt is scored and nothing else is wanted.
  int32_t n_max = 0;
  SamplingParams sampling;
  SmallVec<TokenId, 2> stop_ids;  // besides the model's own end token
  // Null: the real model samples. The choices of one request share it.
  std::shared_ptr<const ScriptPlay> script;
};

}  // namespace sluice::wire
