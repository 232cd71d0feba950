#include "engine/replay.h"

#include <algorithm>

namespace sluice::engine {

int32_t DecoderBegin(const ReplayRule& rule, int32_t n_prompt) {
  return rule.prefill == Prefill::kCompact ? std::max(0, n_prompt - rule.window) : 0;
}

int32_t ReplayBegin(const ReplayRule& rule, int32_t n_prompt, int32_t n_hit) {
  if (n_hit == 0) return 0;
  // A compact prompt's second half begins at one row, whatever the hit: windows end before it.
  const int32_t end =
      rule.prefill == Prefill::kCompact ? std::min(n_hit, DecoderBegin(rule, n_prompt)) : n_hit;
  return std::max(0, end - rule.n_replay) & ~1;
}

}  // namespace sluice::engine
