// Tiles that items of op gqa_attention are read in. For its variants: everything here is inlined,
// for each is built for an instruction set of its own. Private to the op.

#pragma once

#include <cstdint>

#include "kernels/gqa_attention/items.h"
#include "kernels/gqa_attention/op.h"

namespace sluice::ops::gqa_attention {

#define SLUICE_TILES_INLINE __attribute__((always_inline)) static inline

inline constexpr int32_t kTile = 64;  // positions
inline constexpr int32_t kTilesOfSpan = kSpan / kTile;

// Rows of a tile, and of the one that is asked for while it is worked on. There are always kTile of
// them, for blocks have no fewer; what is in those that nobody wrote yet is not looked at.
struct Tile {
  const uint8_t* rows;
  int64_t stride;  // from row to row
  const uint8_t* later;
};

SLUICE_TILES_INLINE int32_t Least(int32_t a, int32_t b) { return a < b ? a : b; }

// Which head of the batch query i of an item is: head i % group of row i / group.
SLUICE_TILES_INLINE int64_t HeadOf(const Params& params, const Item& item, int32_t query) {
  const int32_t group = params.n_heads / params.n_kv_heads;
  return (item.first_row + query / group) * params.n_heads + int64_t{item.kv_head} * group +
         query % group;
}

// What an item reads, step by step: tiles of the keys of a span, of its values, of the next keys.
struct Reader {
  const Params& params;
  const Item& item;
  int32_t end;  // one behind the last position
};

SLUICE_TILES_INLINE int32_t StepOf(int32_t position, bool is_values) {
  return (2 * (position / kSpan) + (is_values ? 1 : 0)) * kTilesOfSpan + position % kSpan / kTile;
}

SLUICE_TILES_INLINE int32_t PositionOf(int32_t step) {
  return step / (2 * kTilesOfSpan) * kSpan + step % kTilesOfSpan * kTile;
}

SLUICE_TILES_INLINE const uint8_t* RowsOf(const Reader& reader, int32_t step) {
  const bool is_values = step / kTilesOfSpan % 2 != 0;
  const Sequence& sequence = *reader.item.sequence;
  const PagedRows& pages = is_values ? sequence.values : sequence.keys;
  const int64_t row = PositionOf(step);
  return pages.base + pages.blocks[row / pages.rows_per_block].value * pages.block_bytes +
         row % pages.rows_per_block * pages.row_bytes +
         int64_t{reader.item.kv_head} * reader.params.head_dim * 2;
}

SLUICE_TILES_INLINE Tile TileAt(const Reader& reader, int32_t position, bool is_values) {
  const int32_t step = StepOf(position, is_values);
  const int32_t end_step = StepOf(reader.item.end_span * kSpan, false);
  int32_t later = step + 1;
  while (later < end_step && PositionOf(later) >= reader.end) ++later;
  return {.rows = RowsOf(reader, step),
          .stride = reader.item.sequence->keys.row_bytes,
          .later = RowsOf(reader, later < end_step ? later : step)};
}

}  // namespace sluice::ops::gqa_attention
