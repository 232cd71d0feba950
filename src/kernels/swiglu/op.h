// out = bf16(silu(gate) * up), silu and product in float32 (Shazeer, "GLU Variants Improve
// Transformer", 2020).

#pragma once

#include <cstdint>

#include "tensor/formats.h"
#include "tensor/stream.h"

namespace sluice::ops::swiglu {

struct Params {
  const float* gate = nullptr;  // [n]
  const float* up = nullptr;    // [n]
  int64_t n = 0;                // values of all rows, which stand behind each other
  Bf16* out = nullptr;          // [n]
};

void Run(const Params& params, Stream& stream);

}  // namespace sluice::ops::swiglu
