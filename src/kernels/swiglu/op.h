// out = bf16(silu(gate) * up), silu and product in float32 (Shazeer, "GLU Variants Improve
// Transformer", 2020).

#pragma once

#include <cstdint>
#include <vector>

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

// What there are variants for, best first.
std::vector<Isa> Isas();
// Which one Run takes.
Isa ChosenIsa(const Params& params, const Stream& stream);

// Values of one work item: several times what a fork and a join of threads cost.
inline constexpr int64_t kValues = 16 * 1024;

namespace avx512 {
void Run(const Params& params, Stream& stream);
}
namespace avx2 {
void Run(const Params& params, Stream& stream);
}
namespace ref {
void Run(const Params& params, Stream& stream);
}

}  // namespace sluice::ops::swiglu
