// silu(gate) * up: the formula.

#include <algorithm>

#include "kernels/simd/elementary.h"
#include "kernels/simd/flush_denormals.h"
#include "kernels/swiglu/op.h"

namespace sluice::ops::swiglu::ref {

void Run(const Params& params, Stream& stream) {
  const int64_t n_items = (params.n + kValues - 1) / kValues;
  stream.team.Run(n_items, [&](int64_t begin, int64_t end, int32_t) {
    const simd::FlushDenormals flush(stream.arithmetic);
    for (int64_t i = begin * kValues; i < std::min(params.n, end * kValues); ++i) {
      params.out[i] = ToBf16(simd::Silu(params.gate[i], stream.arithmetic) * params.up[i]);
    }
  });
}

}  // namespace sluice::ops::swiglu::ref
