// Groupwise quantisation of bf16 rows (AQ8, QDQ4m, QDQ4n; spec model.md §3.0). The same in every
// arithmetic.

#pragma once

#include <cstdint>

#include "tensor/formats.h"
#include "tensor/stream.h"

namespace sluice::ops::quantize {

struct Params {
  GroupFormat format = GroupFormat::kFp8;
  const Bf16* x = nullptr;  // [n_rows, n_columns], rows x_stride values apart
  int64_t x_stride = 0;
  int64_t n_rows = 0;
  int32_t n_columns = 0;  // a multiple of the group size
  // Outputs; each may be null. A stored row is its codes, then its scales (RowBytes).
  uint8_t* stored = nullptr;  // [n_rows, RowBytes]
  // [n_rows, n_columns]: what reading the stored row gives; may be x if x_stride is n_columns.
  Bf16* values = nullptr;
};

void Run(const Params& params, Stream& stream);

}  // namespace sluice::ops::quantize
