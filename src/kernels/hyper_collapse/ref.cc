#include "kernels/hyper_collapse/op.h"

namespace sluice::ops::hyper_collapse {
namespace {

void CollapseRow(const Params& params, int64_t row) {
  const Bf16* streams = params.streams + row * params.n_streams * params.n_columns;
  const float* mix = params.mix + row * params.n_streams;
  Bf16* out = params.out + row * params.out_stride;
  for (int32_t column = 0; column < params.n_columns; ++column) {
    float total = mix[0] * ToFloat(streams[column]);
    for (int32_t i = 1; i < params.n_streams; ++i) {
      total += mix[i] * ToFloat(streams[int64_t{i} * params.n_columns + column]);
    }
    out[column] = ToBf16(total);
  }
}

// A tap is a sum divided, which rounds differently from a sum of quarters.
void AverageRow(const Params& params, int64_t row) {
  const Bf16* streams = params.streams + row * params.n_streams * params.n_columns;
  Bf16* out = params.out + row * params.out_stride;
  for (int32_t column = 0; column < params.n_columns; ++column) {
    float total = ToFloat(streams[column]);
    for (int32_t i = 1; i < params.n_streams; ++i) {
      total += ToFloat(streams[int64_t{i} * params.n_columns + column]);
    }
    out[column] = ToBf16(total / static_cast<float>(params.n_streams));
  }
}

}  // namespace

void Run(const Params& params, Stream& stream) {
  stream.team.Run(params.n_rows, [&](int64_t begin, int64_t end, int32_t) {
    for (int64_t row = begin; row < end; ++row) {
      if (params.mix != nullptr) {
        CollapseRow(params, row);
      } else {
        AverageRow(params, row);
      }
    }
  });
}

}  // namespace sluice::ops::hyper_collapse
