// How the work of op index_score is shared: items of some keys of one row, counted over all rows.
// For its variants.

#pragma once

#include <cstdint>

#include "kernels/index_score/op.h"

namespace sluice::ops::index_score {

// Keys scored together.
inline constexpr int64_t kTile = 16;
// Keys of one work item. Only the split over threads depends on it.
inline constexpr int64_t kItemKeys = 16 * kTile;

namespace ref {
// Scores of the keys [begin, end) of one row, begin a multiple of kTile. Any variant may hand it
// what it does not know; in a thread of the team, denormals flushed.
void ScoreKeys(
    const Params& params, int64_t row, int64_t begin, int64_t end, Arithmetic arithmetic);
}  // namespace ref

// In a thread of the team: score(row, begin, end) for the keys of the items [begin, end).
template <typename Score>
static inline void ForItems(const Params& params, int64_t begin, int64_t end, const Score& score) {
  int64_t first_item = 0;  // of the row
  for (int64_t row = 0; row < params.n_rows && first_item < end; ++row) {
    const int64_t n_keys = params.rows[row].n_visible;
    const int64_t n = (n_keys + kItemKeys - 1) / kItemKeys;
    const int64_t from = begin > first_item ? begin - first_item : 0;
    const int64_t to = end - first_item < n ? end - first_item : n;
    first_item += n;
    if (from >= to) continue;
    score(row, from * kItemKeys, to * kItemKeys < n_keys ? to * kItemKeys : n_keys);
  }
}

static inline int64_t NumItems(const Params& params) {
  int64_t n = 0;
  for (int64_t row = 0; row < params.n_rows; ++row) {
    n += (params.rows[row].n_visible + kItemKeys - 1) / kItemKeys;
  }
  return n;
}

}  // namespace sluice::ops::index_score
