// y = x W^T in exact arithmetic: sums in double, rounded once. The goldens' models run on it, so
// the loops are turned for speed.
//
// A worker owns runs of 16 outputs. It decodes 256 inputs of their weights into a panel [256][16]
// (16 KiB: first cache level, read once from memory), lets every row go over it, and takes the next
// inputs. Between panels the sums of up to 256 rows wait in memory, so each output stays one chain
// over all inputs, and a weight is decoded once for all these rows.

#include <algorithm>

#include "base/check.h"
#include "kernels/linear/op.h"
#include "kernels/simd/dot_panel.h"

namespace sluice::ops::linear::ref {
namespace {

constexpr int64_t kOutputs = simd::kPanelOutputs;
constexpr int64_t kInputs = 256;  // even, so that no pair is cut; a multiple of the scale tiles
constexpr int64_t kRows = 256;

struct Workspace {
  alignas(64) double sums[kRows * kOutputs];
  alignas(64) float panel[kInputs * kOutputs];
  float x[2 * kInputs];
  float weights[4 * kInputs];
};

struct Range {
  int64_t first = 0;
  int64_t n = 0;
};

Range RangeFrom(int64_t first, int64_t end, int64_t n_max) {
  return {.first = first, .n = std::min(n_max, end - first)};
}

// panel[k][o] = W[outputs.first + o][inputs.first + k], 0 beyond the last output.
// weights: room for four rows, which are turned together.
void DecodePanel(const Matrix& matrix, Range outputs, Range inputs, float* weights, float* panel) {
  for (int64_t o = 0; o < kOutputs; ++o) {
    float* row = weights + o % 4 * kInputs;
    if (o < outputs.n) {
      DecodeMatrixPart(matrix, outputs.first + o, inputs.first, inputs.n, row);
    } else {
      std::fill_n(row, inputs.n, 0.0F);
    }
    if (o % 4 == 3) simd::StoreInPanel(weights, kInputs, inputs.n, panel + o - 3);
  }
}

void LoadInputs(const Bf16* x, int64_t n, float* out) {
  for (int64_t k = 0; k < n; ++k) out[k] = ToFloat(x[k]);
}

void AddPanel(const Params& params, Range rows, Range inputs, Workspace& work) {
  const Bf16* x = params.x + rows.first * params.x_stride + inputs.first;
  int64_t row = 0;
  for (; row + 1 < rows.n; row += 2) {
    LoadInputs(x + row * params.x_stride, inputs.n, work.x);
    LoadInputs(x + (row + 1) * params.x_stride, inputs.n, work.x + kInputs);
    simd::AddProducts<2>(work.x, kInputs, work.panel, inputs.n, work.sums + row * kOutputs);
  }
  if (row < rows.n) {
    LoadInputs(x + row * params.x_stride, inputs.n, work.x);
    simd::AddProducts<1>(work.x, kInputs, work.panel, inputs.n, work.sums + row * kOutputs);
  }
}

void StoreSums(const Params& params, Range rows, Range outputs, const double* sums) {
  for (int64_t row = 0; row < rows.n; ++row) {
    const int64_t at = (rows.first + row) * params.out_stride + outputs.first;
    for (int64_t o = 0; o < outputs.n; ++o) {
      const auto sum = static_cast<float>(sums[row * kOutputs + o]);
      if (params.out != nullptr) params.out[at + o] = ToBf16(sum);
      if (params.out_f32 != nullptr) params.out_f32[at + o] = sum;
    }
  }
}

void RunOutputs(const Params& params, Range outputs) {
  Workspace work;
  const Matrix& weight = params.weight;
  for (int64_t first_row = 0; first_row < params.n_rows; first_row += kRows) {
    const Range rows = RangeFrom(first_row, params.n_rows, kRows);
    std::fill_n(work.sums, rows.n * kOutputs, 0.0);
    for (int64_t first_input = 0; first_input < weight.n_in; first_input += kInputs) {
      const Range inputs = RangeFrom(first_input, weight.n_in, kInputs);
      DecodePanel(weight, outputs, inputs, work.weights, work.panel);
      AddPanel(params, rows, inputs, work);
    }
    StoreSums(params, rows, outputs, work.sums);
  }
}

}  // namespace

void RunExact(const Params& params, Stream& stream) {
  const int64_t n_out = params.weight.n_out;
  const int64_t n_tiles = (n_out + kOutputs - 1) / kOutputs;
  stream.team.Run(n_tiles, [&](int64_t begin, int64_t end, int32_t) {
    for (int64_t tile = begin; tile < end; ++tile) {
      RunOutputs(params, RangeFrom(tile * kOutputs, n_out, kOutputs));
    }
  });
}

}  // namespace sluice::ops::linear::ref
