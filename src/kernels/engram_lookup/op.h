// Rows of the Engram table as values (spec model.md §3.6): E4M3 with an E8M0 scale per 32 columns,
// exact in bf16. Byte offsets pass 2^36: all index arithmetic is 64 bits wide. The same in every
// arithmetic.

#pragma once

#include <cstdint>

#include "tensor/formats.h"
#include "tensor/stream.h"

namespace sluice::ops::engram_lookup {

struct Params {
  const uint8_t* codes = nullptr;   // [n_table_rows, head_dim]
  const uint8_t* scales = nullptr;  // [n_table_rows, head_dim / 32]
  int64_t n_table_rows = 0;
  int32_t head_dim = 0;
  const int64_t* table_rows = nullptr;  // [n_rows, n_lookups], each in [0, n_table_rows)
  int64_t n_rows = 0;
  int32_t n_lookups = 0;
  Bf16* out = nullptr;  // [n_rows, n_lookups * head_dim]
};

void Run(const Params& params, Stream& stream);

}  // namespace sluice::ops::engram_lookup
