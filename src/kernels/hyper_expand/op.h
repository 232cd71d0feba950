// stream_j <- bf16(post_j * y + sum_i comb[i, j] * stream_i), in place, sources ascending, each
// product and sum rounded to float; the sum over sources is made first and added to post_j * y
// (spec model.md §3.2). The same in every arithmetic.

#pragma once

#include <cstdint>

#include "tensor/formats.h"
#include "tensor/stream.h"

namespace sluice::ops::hyper_expand {

struct Params {
  const Bf16* y = nullptr;      // [n_rows, n_columns]
  Bf16* streams = nullptr;      // [n_rows, n_streams, n_columns], in place
  const float* post = nullptr;  // [n_rows, n_streams]
  const float* comb = nullptr;  // [n_rows, n_streams source, n_streams destination]
  int64_t n_rows = 0;
  int32_t n_streams = 0;  // <= 8
  int32_t n_columns = 0;
};

void Run(const Params& params, Stream& stream);

}  // namespace sluice::ops::hyper_expand
