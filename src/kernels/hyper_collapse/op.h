// bf16(sum_i mix_i * stream_i), streams ascending, each product and sum rounded to float (spec
// model.md §3.2). The same in every arithmetic.

#pragma once

#include <cstdint>

#include "tensor/formats.h"
#include "tensor/stream.h"

namespace sluice::ops::hyper_collapse {

struct Params {
  const Bf16* streams = nullptr;  // [n_rows, n_streams, n_columns]
  const float* mix = nullptr;     // [n_rows, n_streams]; null: the mean of the streams (a tap)
  int64_t n_rows = 0;
  int32_t n_streams = 0;
  int32_t n_columns = 0;
  Bf16* out = nullptr;  // [n_rows, n_columns]
  int64_t out_stride = 0;
};

void Run(const Params& params, Stream& stream);

}  // namespace sluice::ops::hyper_collapse
