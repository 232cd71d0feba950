// Routed experts and the shared one (spec model.md §3.5): clamped SwiGLU, the routing weight before
// the down projection, outputs of a row summed ascending by expert id, the shared one last.
//
//   g = min(bf16(x w1), limit); up = clamp(bf16(x w3), +-limit); h = silu(g) * up; h <- weight * h
//   e = bf16(AQ8(bf16(h)) w2);  z = bf16(sum_e e + shared)

#pragma once

#include <cstdint>
#include <span>

#include "tensor/formats.h"
#include "tensor/matrix.h"
#include "tensor/stream.h"

namespace sluice::ops::moe_ffn {

struct Expert {
  Matrix w1, w2, w3;  // w1, w3 [n_inner, n_columns]; w2 [n_columns, n_inner]
};

struct Params {
  const Bf16* x = nullptr;  // [n_rows, n_columns], not quantised yet
  int64_t n_rows = 0;
  int32_t n_columns = 0;
  int32_t n_inner = 0;
  const int32_t* chosen = nullptr;  // [n_rows, n_chosen], ascending
  const float* weights = nullptr;   // [n_rows, n_chosen]
  int32_t n_chosen = 0;
  std::span<const Expert> experts;
  Expert shared;
  float limit = 0;      // swiglu_limit; 0: no clamp
  Bf16* out = nullptr;  // [n_rows, n_columns]
  // For whoever looks inside; may be null.
  Bf16* expert_out = nullptr;    // [n_rows, n_chosen, n_columns]
  Bf16* shared_out = nullptr;    // [n_rows, n_columns]
  std::span<std::byte> scratch;  // ScratchBytes
};

int64_t ScratchBytes(
    int64_t n_rows, int32_t n_columns, int32_t n_inner, int32_t n_chosen, int32_t n_experts);
void Run(const Params& params, Stream& stream);

}  // namespace sluice::ops::moe_ffn
