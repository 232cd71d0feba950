// y = x W^T for bf16 rows and any weight format (L8, L4, LB, LF of spec model.md §3.0) but those in
// blocks, which have an op of their own (block_linear).
//
// Float32: one chain per output, start +0, inputs ascending in pairs, of each pair the odd element
// first, then the even one (spec cpu-kernels.md §3.0, rule 1); an odd last input alone. Each step
// is
//
//   sum = fma(x, w, sum)       rounded once, to nearest even
//   sum = sum + round(x * w)   with an F32 weight, whose products are rounded before they are added
//
// Denormals are flushed: those of x, w and sum count as zeros of their sign before a step, and one
// that a step gives becomes a zero of its sign; a product inside fma is not looked at. Of FP8 and
// FP4, w is code times scale, flushed only as a whole, and -0 counts as +0. Rows are independent of
// each other and outputs are split over threads, never inputs.
//
// Exact arithmetic: the sum in double, rounded once to float32.

#pragma once

#include <cstdint>
#include <vector>

#include "tensor/formats.h"
#include "tensor/matrix.h"
#include "tensor/stream.h"

namespace sluice::ops::linear {

struct Params {
  // [n_rows, weight.n_in]. For a quantised weight these must be values of AQ8 already (op
  // quantize): the caller quantises once for all weights that read the same rows.
  const Bf16* x = nullptr;
  int64_t x_stride = 0;  // values from row to row
  int64_t n_rows = 0;
  Matrix weight;
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

namespace ref {
void Run(const Params& params, Stream& stream);
// Run in Arithmetic::kExact.
void RunExact(const Params& params, Stream& stream);
}  // namespace ref
namespace avx2 {
void Run(const Params& params, Stream& stream);
}
// Packed matrices of BF16, FP8 and FP4.
namespace avx512bf16 {
bool Takes(const Params& params);
void Run(const Params& params, Stream& stream);
}  // namespace avx512bf16

}  // namespace sluice::ops::linear
