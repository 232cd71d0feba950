// Planner: which rows go through the model in the next step, and who must give blocks back for
// them. Pure; thread-safe.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace sluice::engine {

// Rows of one step whose logits are wanted for scores of prompts: each is a row of the vocabulary,
// 33 MB together with the released model.
inline constexpr int32_t kMaxScoredRows = 64;

// A sequence that has begun: its rows [n_run, n_known) have not run.
struct PlanItem {
  int32_t slot = 0;
  int32_t n_run = 0;
  int32_t n_known = 0;
  int32_t n_blocks = 0;      // that it holds
  int32_t n_scores = 0;      // so many rows right before the last known one need logits, too
  bool is_decoding = false;  // one row, behind the prompt
  bool may_run = true;       // false: nobody takes its tokens now
  bool is_paused = false;    // because its client does not read: the first to give its blocks away
};

struct StepLimits {
  int32_t n_prompt_rows = 0;          // of prompts and of what runs again, together
  int32_t n_scores = kMaxScoredRows;  // rows with logits, besides those that draw
  int32_t n_available_blocks = 0;     // free, or cached and held by nobody
};

struct StepPlan {
  struct Part {
    int32_t slot = 0;
    int32_t begin = 0;  // position of its first row
    int32_t n_rows = 0;
    int32_t n_logits = 0;  // of its last rows
    bool draws = false;    // its last row is the last one known: the next token can be drawn
  };
  std::vector<Part> parts;
  // Not -1: nothing runs before this slot has given its blocks back; plan again then.
  int32_t victim = -1;
};

// `items` by rank: the highest class first, and the oldest of a class. Everybody who decodes gets a
// row. The rows of prompts are shared out: half of them to the first prompt, so that it always
// moves on; then to those that need the fewest, so that a short one does not wait for a long one;
// what is left to the first. A prompt that is scored stops where the step has no more rows with
// logits.
//
// Blocks that are not there are taken from the last that holds some, the youngest of the lowest
// class, but first from those that are paused: for anybody who decodes, and for prompts before it.
// With as many blocks as one sequence may need, the first one always moves on.
StepPlan Plan(std::span<const PlanItem> items, const StepLimits& limits);

}  // namespace sluice::engine
