// Stored rows and pools of blocks, for the tests of operators that read them.

#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "kernels/harness/samples_test_impl.h"
#include "tensor/formats.h"
#include "tensor/paged.h"

namespace sluice::harness {

// n_rows rows of n_columns bell-shaped values in a group format.
inline std::vector<uint8_t> StoredRows(GroupFormat format,
                                       int64_t n_rows,
                                       int32_t n_columns,
                                       Samples& samples) {
  const int32_t row_bytes = RowBytes(format, n_columns);
  std::vector<uint8_t> rows(static_cast<size_t>(n_rows * row_bytes));
  for (int64_t row = 0; row < n_rows; ++row) {
    const std::vector<Bf16> values = samples.Bf16s(n_columns);
    uint8_t* codes = rows.data() + row * row_bytes;
    QuantizeRow(format, values.data(), n_columns, codes, codes + CodeBytes(format, n_columns));
  }
  return rows;
}

// The values of one stored row, [n_columns].
inline std::vector<float> ValuesOf(GroupFormat format, const uint8_t* stored, int32_t n_columns) {
  std::vector<float> values(static_cast<size_t>(n_columns));
  const uint8_t* scales = stored + CodeBytes(format, n_columns);
  DequantizeRow(format, stored, scales, n_columns, values.data());
  return values;
}

struct PagedPool {
  std::vector<uint8_t> bytes;
  std::vector<BlockId> blocks;
  PagedRows rows;  // points into the two; moving keeps it valid, copying does not

  PagedPool() = default;
  PagedPool(PagedPool&&) = default;
  PagedPool& operator=(PagedPool&&) = default;
};

// Whole rows of row_bytes, laid into blocks. shuffle 0 keeps the blocks in order. One block more
// than needed is in the pool, and there is a gap after each block; both hold 0xff.
inline PagedPool MakePagedPool(const std::vector<uint8_t>& rows,
                               int32_t row_bytes,
                               int32_t rows_per_block,
                               uint64_t shuffle) {
  constexpr int64_t kGap = 24;
  const int64_t n_rows = static_cast<int64_t>(rows.size()) / row_bytes;
  const int64_t n_blocks = (n_rows + rows_per_block - 1) / rows_per_block + 1;
  const int64_t block_bytes = int64_t{rows_per_block} * row_bytes + kGap;
  PagedPool pool;
  pool.bytes.assign(static_cast<size_t>(n_blocks * block_bytes), 0xff);
  pool.blocks.resize(static_cast<size_t>(n_blocks));
  for (size_t i = 0; i < pool.blocks.size(); ++i) pool.blocks[i] = BlockId(static_cast<int32_t>(i));
  Samples order(shuffle);
  for (size_t i = pool.blocks.size() - 1; i > 0 && shuffle != 0; --i) {
    const int32_t other = order.Below(static_cast<int32_t>(i) + 1);
    std::swap(pool.blocks[i], pool.blocks[static_cast<size_t>(other)]);
  }
  pool.rows = {.base = pool.bytes.data(),
               .blocks = pool.blocks.data(),
               .block_bytes = block_bytes,
               .rows_per_block = rows_per_block,
               .row_bytes = row_bytes};
  for (int64_t row = 0; row < n_rows; ++row) {
    const auto place = pool.rows.Row(row) - pool.bytes.data();
    std::copy_n(rows.begin() + row * row_bytes, row_bytes, pool.bytes.begin() + place);
  }
  return pool;
}

}  // namespace sluice::harness
