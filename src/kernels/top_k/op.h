// The best entries of each row (spec model.md §3.4): higher score first, ties to the lower index;
// given back ascending. Optionally the candidate blocks of the hierarchical selection. The same in
// every arithmetic.

#pragma once

#include <cstdint>

#include "tensor/stream.h"

namespace sluice::ops::top_k {

struct Params {
  const float* scores = nullptr;  // [n_rows, stride]
  int64_t stride = 0;
  const int64_t* n_visible = nullptr;  // [n_rows]: entries [0, n_visible) take part
  int64_t n_rows = 0;
  int32_t n_chosen = 0;
  int32_t* chosen = nullptr;  // [n_rows, n_chosen], ascending, the rest -1

  // Only entries inside these blocks may be chosen; null: all. [n_rows, n_blocks], ascending, the
  // rest -1.
  const int32_t* inside = nullptr;
  // Written if not null: the n_blocks blocks of block_size entries with the best maximum, that of
  // the newest visible entry always among them. [n_rows, n_blocks], ascending, the rest -1.
  int32_t* candidates = nullptr;
  int32_t n_blocks = 0;
  int32_t block_size = 0;

  int32_t* scratch = nullptr;  // [n_rows, stride]
};

void Run(const Params& params, Stream& stream);

}  // namespace sluice::ops::top_k
