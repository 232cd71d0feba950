// Which components the state of a sequence has, and their indices (spec model.md §4.1).

#pragma once

#include <cstdint>
#include <vector>

#include "kv/layout.h"
#include "model/deepseek_v41/config.h"

namespace sluice::model::deepseek_v41 {

// A ring of windows is longer than the window by two verify widths: a step in flight and a rejected
// one may both have written rows that a rolled-back query must still not lose (spec model.md §4.5).
int32_t RingRows(const Config& config);

// Open groups of a ratio-2 compressor: value and gate (float32) of the even positions whose partner
// may still come, position p in row p / 2 % kOpenRows. As many as can be pending under the same two
// verify widths.
int32_t OpenRows(const Config& config);

struct StateIndex {
  explicit StateIndex(const Config& config);

  kv::Layout layout;
  // By layer, -1 where there is none. Block components of KV sources:
  std::vector<int32_t> entries;  // [..., RowBytes(kFp4Nv, head_dim)]
  std::vector<int32_t> keys;     // [..., RowBytes(kFp4Mx, index_head_dim)]
  // Slot components:
  std::vector<int32_t> windows;  // every layer; position p in row p % RingRows
  std::vector<int32_t> open;     // KV sources of ratio 2
  std::vector<int32_t> drafts;   // stages of the draft; position p in row p % sliding_window
};

}  // namespace sluice::model::deepseek_v41
