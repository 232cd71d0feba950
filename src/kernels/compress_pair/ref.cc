#include <algorithm>

#include "kernels/compress_pair/op.h"
#include "kernels/simd/elementary.h"
#include "kernels/simd/flush_denormals.h"

namespace sluice::ops::compress_pair {
namespace {

void PoolPair(const Pair& pair, int32_t n_columns, Arithmetic arithmetic, Bf16* out) {
  for (int32_t column = 0; column < n_columns; ++column) {
    const float gate_0 = pair.gate[0][column];
    const float gate_1 = pair.gate[1][column];
    const float larger = std::max(gate_0, gate_1);
    const float e_0 = simd::Exp(gate_0 - larger, arithmetic);
    const float e_1 = simd::Exp(gate_1 - larger, arithmetic);
    const float sum = e_0 + e_1;
    const float first = pair.value[0][column] * (e_0 / sum);
    const float second = pair.value[1][column] * (e_1 / sum);
    out[column] = ToBf16(first + second);
  }
}

}  // namespace

void Run(const Params& params, Stream& stream) {
  stream.team.Run(params.n_pairs, [&](int64_t begin, int64_t end, int32_t) {
    const simd::FlushDenormals flush(stream.arithmetic);
    for (int64_t i = begin; i < end; ++i) {
      Bf16* out = params.out + i * params.n_columns;
      PoolPair(params.pairs[i], params.n_columns, stream.arithmetic, out);
    }
  });
}

}  // namespace sluice::ops::compress_pair
