#include <algorithm>
#include <cstring>

#include "kernels/simd/elementary.h"
#include "kernels/simd/flush_denormals.h"
#include "kernels/simd/vector_exp.h"
#include "kernels/swiglu/op.h"

namespace sluice::ops::swiglu {
namespace {

// Values of one work item.
constexpr int64_t kValues = 1024;

// simd::Silu in four lanes.
simd::Floats4 SiluFloat32(simd::Floats4 x) { return x / (simd::Exp4Float32(-x) + 1.0F); }

void RunValues(const Params& params, int64_t begin, int64_t end, Arithmetic arithmetic) {
  int64_t i = begin;
  for (; i + 4 <= end && arithmetic == Arithmetic::kFloat32; i += 4) {
    simd::Floats4 gate, up;
    std::memcpy(&gate, params.gate + i, sizeof gate);
    std::memcpy(&up, params.up + i, sizeof up);
    const simd::Floats4 product = SiluFloat32(gate) * up;
    for (int lane = 0; lane < 4; ++lane) params.out[i + lane] = ToBf16(product[lane]);
  }
  for (; i < end; ++i) {
    params.out[i] = ToBf16(simd::Silu(params.gate[i], arithmetic) * params.up[i]);
  }
}

}  // namespace

void Run(const Params& params, Stream& stream) {
  const int64_t n_items = (params.n + kValues - 1) / kValues;
  stream.team.Run(n_items, [&](int64_t begin, int64_t end, int32_t) {
    const simd::FlushDenormals flush(stream.arithmetic);
    RunValues(params, begin * kValues, std::min(params.n, end * kValues), stream.arithmetic);
  });
}

}  // namespace sluice::ops::swiglu
