#include "base/check.h"
#include "kernels/engram_lookup/op.h"

namespace sluice::ops::engram_lookup {
namespace {

constexpr int32_t kGroup = GroupSize(GroupFormat::kFp8);

// One row of the table -> out [head_dim].
void DecodeTableRow(const Params& params, int64_t table_row, Bf16* out) {
  const uint8_t* codes = params.codes + table_row * params.head_dim;
  const uint8_t* scales = params.scales + table_row * (params.head_dim / kGroup);
  for (int32_t group = 0; group < params.head_dim / kGroup; ++group) {
    const float scale = FromE8m0(scales[group]);
    for (int32_t i = group * kGroup; i < (group + 1) * kGroup; ++i) {
      out[i] = ToBf16(FromE4m3(codes[i]) * scale);
    }
  }
}

}  // namespace

void Run(const Params& params, Stream& stream) {
  SLUICE_CHECK(params.head_dim % kGroup == 0);
  const int64_t n_items = params.n_rows * params.n_lookups;
  stream.team.Run(n_items, [&](int64_t begin, int64_t end, int32_t) {
    for (int64_t item = begin; item < end; ++item) {
      const int64_t table_row = params.table_rows[item];
      SLUICE_CHECK(table_row >= 0 && table_row < params.n_table_rows);
      DecodeTableRow(params, table_row, params.out + item * params.head_dim);
    }
  });
}

}  // namespace sluice::ops::engram_lookup
