// hop 5 of 10: after Admit, before Run.

#include "engine/planner.h"

#include <algorithm>

#include "base/check.h"

namespace sluice::engine {

StepPlan Plan(std::span<const Pending> pending, int32_t n_rows) {
  SLUICE_CHECK(std::ssize(pending) < n_rows);
  StepPlan plan;
  auto n_left = static_cast<size_t>(n_rows);
  for (const Pending& seq : pending) {
    if (seq.is_prompt) continue;
    SLUICE_CHECK(seq.tokens.size() == 1);
    plan.parts.push_back({.slot = seq.slot, .tokens = seq.tokens, .draws = true});
    --n_left;
  }
  for (const Pending& seq : pending) {
    if (!seq.is_prompt || n_left == 0) continue;
    const size_t n = std::min(seq.tokens.size(), n_left);
    plan.parts.push_back(
        {.slot = seq.slot, .tokens = seq.tokens.first(n), .draws = n == seq.tokens.size()});
    n_left -= n;
  }
  return plan;
}

}  // namespace sluice::engine
