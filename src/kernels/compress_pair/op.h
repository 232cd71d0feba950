// Two neighbouring tokens pooled into one (compressor of ratio 2; spec model.md §3.4): per channel
// a softmax of the two gates, e = exp(g - max), p = e / (e_0 + e_1); bf16(a_0 p_0 + a_1 p_1), each
// product and sum rounded to float.

#pragma once

#include <cstdint>

#include "tensor/formats.h"
#include "tensor/stream.h"

namespace sluice::ops::compress_pair {

struct Pair {
  // [n_columns] each: value and gate of the first and the second token
  const float* value[2];
  const float* gate[2];
};

struct Params {
  const Pair* pairs = nullptr;  // [n_pairs]
  int64_t n_pairs = 0;
  int32_t n_columns = 0;
  Bf16* out = nullptr;  // [n_pairs, n_columns]
};

void Run(const Params& params, Stream& stream);

}  // namespace sluice::ops::compress_pair
