// Layout: the components of KV memory and their sizes, given by the model (spec model.md §4.1).
// Whoever handles stored bytes gets every size from here. Plain value.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sluice::kv {

// Tokens of a block: at once the unit of hashing and the page of the pool.
inline constexpr int32_t kBlockTokens = 64;

// What a prefix shares: one row per `tokens_per_row` tokens, addressed by position.
struct BlockComponent {
  std::string name;
  int32_t row_bytes = 0;
  int32_t tokens_per_row = 1;  // divides kBlockTokens

  int32_t rows_per_block() const { return kBlockTokens / tokens_per_row; }
  int64_t block_bytes() const { return int64_t{row_bytes} * rows_per_block(); }
};

// What one sequence keeps for itself: rings of rows, addressed by position modulo n_rows (the
// model says how).
struct SlotComponent {
  std::string name;
  int32_t row_bytes = 0;
  int32_t n_rows = 0;

  int64_t slot_bytes() const { return int64_t{row_bytes} * n_rows; }
};

struct Layout {
  std::vector<BlockComponent> block_components;
  std::vector<SlotComponent> slot_components;

  int64_t block_bytes() const;
  int64_t slot_bytes() const;
  // Blocks that hold n_tokens.
  static int64_t BlocksFor(int64_t n_tokens) {
    return (n_tokens + kBlockTokens - 1) / kBlockTokens;
  }
};

}  // namespace sluice::kv
