#include "engine/replay.h"

#include <algorithm>

namespace sluice::engine {

int32_t DecoderBegin(const ReplayRule& rule, int32_t n_prompt) {
  return rule.prefill == Prefill::kCompact ? std::max(0, n_prompt - rule.window) : 0;
}

bool WindowsServe(const ReplayRule& rule,
                  int32_t n_prompt,
                  int32_t begin,
                  int32_t other_n_prompt,
                  int32_t other_n_run) {
  // Nothing of the second half is needed, or it began at the same row: what a cold run would have.
  if (begin <= DecoderBegin(rule, n_prompt) || rule.prefill == Prefill::kFull) return true;
  if (n_prompt == other_n_prompt) return true;
  // More than a cold run would have: the second half's windows reach further back.
  return rule.replay == Replay::kBounded && other_n_run >= other_n_prompt;
}

int32_t ReplayBegin(const ReplayRule& rule, int32_t n_prompt, int32_t n_hit) {
  if (n_hit == 0) return 0;
  // A compact prompt's second half begins at one row, whatever the hit: windows end before it.
  const int32_t end =
      rule.prefill == Prefill::kCompact ? std::min(n_hit, DecoderBegin(rule, n_prompt)) : n_hit;
  return std::max(0, end - rule.n_replay) & ~1;
}

}  // namespace sluice::engine
