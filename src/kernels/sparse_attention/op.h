// Attention of one query row over its window and its chosen compressed entries, with a sink (spec
// model.md §3.4, step 4). A key is also the value.
//
// Columns have fixed places: window position p in column p - max(0, t - n_window + 1), chosen
// entries from column n_window on, ascending; absent columns are skipped. The online softmax takes
// steps of 64 columns of this layout, so the bits depend on the row alone: per step the maximum,
// weight <- weight * exp(old - new) + sum(p), total <- total * exp(old - new) + sum(bf16(p) key),
// sums ascending by column in one chain; at the end weight + exp(sink - max), bf16(total / weight).
// Dots as in op linear. A row without any column gives zeros.

#pragma once

#include <cstdint>

#include "tensor/formats.h"
#include "tensor/paged.h"
#include "tensor/stream.h"

namespace sluice::ops::sparse_attention {

struct Row {
  int32_t position = 0;  // t
  // Window rows of kFp8: the ring holds position p in row p % ring_rows; positions from step_begin
  // on lie in step_rows, p - step_begin, because they were computed in this step.
  const uint8_t* ring = nullptr;
  int32_t ring_rows = 0;
  const uint8_t* step_rows = nullptr;
  int32_t step_begin = 0;
  int32_t window_begin = 0;  // no position below is read (bounded replay)
  // Compressed entries of kFp4Nv.
  PagedRows entries;
  const int32_t* chosen = nullptr;  // [n_chosen_max], ascending, the rest -1; null: none
};

struct Params {
  const Bf16* q = nullptr;  // [n_rows, n_heads, head_dim]
  const Row* rows = nullptr;
  int64_t n_rows = 0;
  int32_t n_heads = 0;
  int32_t head_dim = 0;  // a multiple of 32, at most 512
  int32_t n_window = 0;
  int32_t n_chosen_max = 0;
  const float* sink = nullptr;  // [n_heads]
  float scale = 1;              // head_dim^-1/2
  Bf16* out = nullptr;          // [n_rows, n_heads, head_dim]
};

void Run(const Params& params, Stream& stream);

// What Run does once it has decoded the columns of a row. By itself for keys that no stored format
// holds, as those of the golden vectors.
struct DecodedParams {
  const Bf16* q = nullptr;           // [n_heads, head_dim]
  const float* keys = nullptr;       // [n_columns, head_dim]
  const int32_t* columns = nullptr;  // [n_columns]: place of each key in the layout, ascending
  int32_t n_columns = 0;
  int32_t n_heads = 0;
  int32_t head_dim = 0;
  const float* sink = nullptr;  // [n_heads]
  float scale = 1;
  Bf16* out = nullptr;  // [n_heads, head_dim]
};
void RunDecoded(const DecodedParams& params, Arithmetic arithmetic);

}  // namespace sluice::ops::sparse_attention
