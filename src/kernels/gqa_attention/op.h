// Causal attention with keys and values that several query heads share (grouped queries: Ainslie et
// al., "GQA", 2023): head h reads those of h / (n_heads / n_kv_heads).
//
//   out[t, h] = sum_p softmax_p(scale * q[t, h] . key[p, g]) * value[p, g],   p = 0 .. t
//
// Queries and probabilities are rounded to bf16, as all that enters a product; keys and values are
// stored so. The softmax is taken to the base 2 in spans of 256 positions that begin at multiples
// of 256, so the bits depend on the row alone. Of one span:
//
//   score_p = (bf16(q) . key_p) * (scale * log2 e)   one chain over the components, in pairs
//   top     = the largest score
//   prob_p  = bf16(2^(score_p - top))                simd/exp2.h
//   weight  = sum prob_p                             simd/lane_sum.h
//   total   = sum prob_p value_p                     one chain over the positions, in pairs, the
//                                                    last one with 0 if it is alone
//
// Chains are those of VDPBF16PS (spec cpu-kernels.md §3.0, rule 1: of a pair the odd one first,
// each a fused multiply-add). Spans are joined ascending, with a = 2^(top - both), b = 2^(other -
// both), `both` the larger top: weight * a + other weight * b, totals alike, each product and sum
// rounded. At the end bf16(total / weight). Denormals are flushed.
//
// Exact arithmetic: sums in double, e^x in double, from the same rounded queries and probabilities.

#pragma once

#include <cstdint>
#include <vector>

#include "tensor/formats.h"
#include "tensor/paged.h"
#include "tensor/stream.h"

namespace sluice::ops::gqa_attention {

inline constexpr int32_t kMaxHeadDim = 256;
inline constexpr int32_t kMaxGroup = 64;  // n_heads / n_kv_heads

// Rows of one sequence, by its positions from 0 on: [n_kv_heads, head_dim] bf16 each. Blocks have a
// multiple of 64 rows, keys and values rows of the same size.
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

// What there are variants for, best first.
std::vector<Isa> Isas();
// Which one Run takes.
Isa ChosenIsa(const Params& params, const Stream& stream);

namespace avx512bf16 {
void Run(const Params& params, Stream& stream);
}
namespace avx2 {
void Run(const Params& params, Stream& stream);
}
namespace ref {
void Run(const Params& params, Stream& stream);
void RunExact(const Params& params, Stream& stream);
}  // namespace ref

}  // namespace sluice::ops::gqa_attention
