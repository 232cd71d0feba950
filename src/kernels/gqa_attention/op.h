// Causal attention with keys and values that several query heads share (grouped queries: Ainslie et
// al., "GQA", 2023): head h reads those of h / (n_heads / n_kv_heads).
//
//   out[t, h] = sum_p softmax_p(scale * q[t, h] . key[p, g]) * value[p, g],   p = 0 .. t
//
// The softmax is taken online over tiles of 64 positions that begin at multiples of 64, so the bits
// depend on the row alone. Per tile: dots as in op linear, each times scale; the maximum so far;
//   weight <- weight * exp(old - new) + sum(p)        sum as simd/lane_sum.h, p = exp(score - new)
//   total  <- total * exp(old - new) + sum(p value)   one chain over the tile's positions, in pairs
// at the end bf16(total / weight). Probabilities stay float32.

#pragma once

#include <cstdint>

#include "tensor/formats.h"
#include "tensor/paged.h"
#include "tensor/stream.h"

namespace sluice::ops::gqa_attention {

inline constexpr int32_t kMaxHeadDim = 256;
inline constexpr int32_t kMaxGroup = 64;  // n_heads / n_kv_heads

// Rows of one sequence, by its positions from 0 on: [n_kv_heads, head_dim] bf16 each.
struct Sequence {
  PagedRows keys;  // rotated
  PagedRows values;
  int64_t first_row = 0;  // its query rows lie together
  int64_t n_rows = 0;
};

struct Params {
  const float* q = nullptr;            // [n_rows, n_heads, head_dim], rotated
  const int32_t* positions = nullptr;  // [n_rows], ascending within a sequence
  const Sequence* sequences = nullptr;
  int64_t n_sequences = 0;
  int32_t n_heads = 0;
  int32_t n_kv_heads = 0;  // divides n_heads
  int32_t head_dim = 0;    // even
  float scale = 1;         // head_dim^-1/2
  Bf16* out = nullptr;     // [n_rows, n_heads, head_dim]
};

void Run(const Params& params, Stream& stream);

}  // namespace sluice::ops::gqa_attention
