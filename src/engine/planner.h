// Planner: which tokens go through the model in the next step. Pure; thread-safe.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"

namespace sluice::engine {

// A sequence that may take part: its tokens that are known and have not gone through the model.
struct Pending {
  int32_t slot = 0;
  std::span<const TokenId> tokens;  // the rest of the prompt, or the one token drawn last
  bool is_prompt = false;
};

struct StepPlan {
  struct Part {
    int32_t slot = 0;
    std::span<const TokenId> tokens;  // the first of its pending ones
    bool draws = false;               // all of them: the next token can be drawn
  };
  std::vector<Part> parts;
};

// One row for every sequence that has drawn a token; what then is left of n_rows goes to prompts,
// in the order given. n_rows is more than there are sequences, so that prompts always move on.
StepPlan Plan(std::span<const Pending> pending, int32_t n_rows);

}  // namespace sluice::engine
