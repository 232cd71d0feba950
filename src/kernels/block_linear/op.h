// y = x W^T for bf16 rows and weights in the blocks of GGUF files (tensor/block_format.h). Weights
// in plain formats go through op linear.
//
// Float32, in one order for any number of rows and threads:
//
//   s_g = dot(x, codes) over the inputs of group g: one chain from +0, inputs in pairs
//         ascending, of each pair the odd element first, then the even one (spec cpu-kernels.md
//         §3.0, rule 1)
//   t_g = the same chain over the inputs alone
//   acc = acc + scale_g * s_g, and behind it, in formats with minima,
//   acc = acc + min_g * t_g; groups ascending, from +0
//
// A group is the values that share a scale: 32, or 16 in Q6_K. Each product and each sum is rounded
// once. Products within a group are exact: codes are whole numbers of at most 8 bits and inputs are
// bf16; so a variant may fuse these, and no others. In K formats scale_g is the float32 product
// d * sc and min_g is minus the product dmin * m, both exact. Denormals are flushed while adding;
// scales and minima are not affected, being 0 or at least 2^-24. Rows are independent of each other
// and outputs are split over threads, never inputs.
//
// Exact arithmetic: all sums in double, from the same codes, scales and minima, rounded once.

#pragma once

#include <cstdint>
#include <vector>

#include "tensor/formats.h"
#include "tensor/matrix.h"
#include "tensor/stream.h"

namespace sluice::ops::block_linear {

struct Params {
  const Bf16* x = nullptr;  // [n_rows, weight.n_in]
  int64_t x_stride = 0;     // values from row to row
  int64_t n_rows = 0;
  Matrix weight;  // in a block format
  // One of the two: rounded to bf16, or as summed.
  Bf16* out = nullptr;  // [n_rows, weight.n_out]
  float* out_f32 = nullptr;
  int64_t out_stride = 0;
};

void Run(const Params& params, Stream& stream);

// What there are variants for, best first.
std::vector<Isa> Isas();
// Which one Run takes.
Isa ChosenIsa(const Params& params, const Stream& stream);

namespace avx512bf16 {
// Packed weights.
void Run(const Params& params, Stream& stream);
}  // namespace avx512bf16
namespace avx2 {
void Run(const Params& params, Stream& stream);
}
namespace ref {
void Run(const Params& params, Stream& stream);
}

}  // namespace sluice::ops::block_linear
