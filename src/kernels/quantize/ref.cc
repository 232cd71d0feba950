#include <cstring>

#include "kernels/quantize/op.h"

namespace sluice::ops::quantize {
namespace {

// Values are made group by group, so that the codes of one group are all the room that is needed.
void QuantizeOneRow(const Params& params, int64_t row) {
  const int32_t group = GroupSize(params.format);
  const int32_t code_bytes = CodeBytes(params.format, group);
  const Bf16* x = params.x + row * params.x_stride;
  uint8_t* stored = params.stored == nullptr
                        ? nullptr
                        : params.stored + row * RowBytes(params.format, params.n_columns);

  for (int32_t first = 0; first < params.n_columns; first += group) {
    uint8_t codes[32];
    uint8_t scale;
    QuantizeRow(params.format, x + first, group, codes, &scale);
    if (stored != nullptr) {
      std::memcpy(stored + CodeBytes(params.format, first), codes, static_cast<size_t>(code_bytes));
      stored[CodeBytes(params.format, params.n_columns) + first / group] = scale;
    }
    if (params.values != nullptr) {
      float values[32];
      DequantizeRow(params.format, codes, &scale, group, values);
      Bf16* out = params.values + row * params.n_columns + first;
      for (int32_t i = 0; i < group; ++i) out[i] = ToBf16(values[i]);
    }
  }
}

}  // namespace

void Run(const Params& params, Stream& stream) {
  stream.team.Run(params.n_rows, [&](int64_t begin, int64_t end, int32_t) {
    for (int64_t row = begin; row < end; ++row) QuantizeOneRow(params, row);
  });
}

}  // namespace sluice::ops::quantize
