// PagedRows: rows of one component that lie in blocks anywhere in a pool. A view; the pool outlives
// it.

#pragma once

#include <cstdint>

#include "base/ids.h"

namespace sluice {

struct PagedRows {
  const uint8_t* base = nullptr;    // block 0 of the component
  const BlockId* blocks = nullptr;  // block of rows [i * rows_per_block, ...)
  int64_t block_bytes = 0;          // from block to block
  int32_t rows_per_block = 1;
  int32_t row_bytes = 0;

  const uint8_t* Row(int64_t row) const {
    return base + blocks[row / rows_per_block].value * block_bytes +
           row % rows_per_block * row_bytes;
  }
};

}  // namespace sluice
