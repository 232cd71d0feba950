// DSpark, the draft module of the checkpoint (mtp.*; spec dspark.md): it reads taps of the
// backbone as context and, in one pass over a block of rows, proposes the tokens that follow.

#pragma once

#include <cstdint>
#include <span>

#include "base/ids.h"
#include "model/deepseek_v41/deepseek_v41.h"
#include "model/model.h"

namespace sluice::model::deepseek_v41 {

// Committed positions of one sequence whose taps the draft has not seen yet.
struct TapRows {
  SlotId slot;
  int32_t first_pos = 0;  // follows what was absorbed before
  int64_t n_rows = 0;
  const Bf16* taps = nullptr;  // [n_rows, n_taps * D]
};

// Writes the rows' context into the draft's rings: each stage a window row per position, position p
// in row p % sliding_window. At most limits.n_rows rows of the workspace.
void AbsorbTaps(const DeepseekV41& model, const TapRows& rows, const Workspace& workspace);

struct DraftRequest {
  SlotId slot;
  int32_t length = 0;  // positions [begin, length) have been absorbed; the anchor stands at length
  int32_t begin = 0;   // 0, or where a truncated prompt's second half began
  TokenId anchor;
};

// Arrays may not be null. block = dspark_block_size.
struct DraftResult {
  std::span<int32_t> tokens;     // [block] greedy: row i follows the token of row i - 1
  std::span<float> base_logits;  // [block, vocab] before the Markov bias
  std::span<float> logits;       // [block, vocab] with it
  std::span<float> confidence;   // [block], before the sigmoid
  std::span<Bf16> hidden;        // [block, D], before the last norm
};

// One block of drafts. Stores nothing: rings hold committed positions only.
void ProposeDraft(const DeepseekV41& model,
                  const DraftRequest& request,
                  const Workspace& workspace,
                  const DraftResult& result);

}  // namespace sluice::model::deepseek_v41
