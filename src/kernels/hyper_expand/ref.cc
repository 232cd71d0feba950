#include "base/check.h"
#include "kernels/hyper_expand/op.h"

namespace sluice::ops::hyper_expand {
namespace {

constexpr int32_t kStreamsMax = 8;

void ExpandRow(const Params& params, int64_t row) {
  const int32_t n = params.n_streams;
  const Bf16* y = params.y + row * params.n_columns;
  Bf16* streams = params.streams + row * n * params.n_columns;
  const float* post = params.post + row * n;
  const float* comb = params.comb + row * n * n;
  for (int32_t column = 0; column < params.n_columns; ++column) {
    float source[kStreamsMax];  // all of a column, before the first one is overwritten
    for (int32_t i = 0; i < n; ++i) {
      source[i] = ToFloat(streams[int64_t{i} * params.n_columns + column]);
    }
    for (int32_t j = 0; j < n; ++j) {
      float mixed = comb[j] * source[0];
      for (int32_t i = 1; i < n; ++i) mixed += comb[i * n + j] * source[i];
      streams[int64_t{j} * params.n_columns + column] =
          ToBf16(post[j] * ToFloat(y[column]) + mixed);
    }
  }
}

}  // namespace

void Run(const Params& params, Stream& stream) {
  SLUICE_CHECK(params.n_streams <= kStreamsMax);
  stream.team.Run(params.n_rows, [&](int64_t begin, int64_t end, int32_t) {
    for (int64_t row = begin; row < end; ++row) ExpandRow(params, row);
  });
}

}  // namespace sluice::ops::hyper_expand
