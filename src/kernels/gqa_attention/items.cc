#include "kernels/gqa_attention/items.h"

#include <algorithm>
#include <span>

#include "kernels/simd/exp2.h"
#include "kernels/simd/flush_denormals.h"
#include "tensor/buffer.h"

namespace sluice::ops::gqa_attention {
namespace {

// Fewer items for each thread leave some of them idle at the end.
constexpr int64_t kItemsPerThread = 4;

// Rows of a sequence that go together.
struct Piece {
  const Sequence* sequence;
  int64_t first_row;
  int32_t n_rows;
  int32_t n_spans;
};

// Rows of a sequence that one piece takes.
int64_t RowsEach(const Params& params, int32_t n_queries) {
  return std::max(1, n_queries / (params.n_heads / params.n_kv_heads));
}

int64_t NumPieces(const Params& params, int64_t n_each) {
  int64_t n = 0;
  for (const Sequence* s = params.sequences; s != params.sequences + params.n_sequences; ++s) {
    n += (s->n_rows + n_each - 1) / n_each;
  }
  return n;
}

// pieces [NumPieces].
void CutPieces(const Params& params, int64_t n_each, std::span<Piece> pieces) {
  size_t at = 0;
  for (const Sequence* s = params.sequences; s != params.sequences + params.n_sequences; ++s) {
    for (int64_t first = 0; first < s->n_rows; first += n_each) {
      const int64_t n = std::min(n_each, s->n_rows - first);
      const int32_t last_position = params.positions[s->first_row + first + n - 1];
      pieces[at++] = {.sequence = s,
                      .first_row = s->first_row + first,
                      .n_rows = static_cast<int32_t>(n),
                      .n_spans = last_position / kSpan + 1};
    }
  }
}

Item ItemOf(const Piece& piece, int64_t kv_head) {
  return {.sequence = piece.sequence,
          .first_row = piece.first_row,
          .n_rows = piece.n_rows,
          .kv_head = static_cast<int32_t>(kv_head),
          .first_span = 0,
          .end_span = piece.n_spans,
          .parts = {}};
}

// Late pieces see more positions: early and late ones take turns, so that a thread's share of any
// group of heads has both.
void WholeItems(const Params& params, std::span<const Piece> pieces, std::span<Item> items) {
  size_t next = 0;
  for (int64_t kv_head = 0; kv_head < params.n_kv_heads; ++kv_head) {
    for (size_t i = 0; i < pieces.size(); ++i) {
      const size_t at = i % 2 == 0 ? i / 2 : pieces.size() - 1 - i / 2;
      items[next++] = ItemOf(pieces[at], kv_head);
    }
  }
}

// Of one span each, neighbours of a group behind each other.
void SpanItems(const Params& params,
               std::span<const Piece> pieces,
               const Parts& parts,
               std::span<Item> items) {
  size_t next = 0;
  for (const Piece& piece : pieces) {
    for (int64_t kv_head = 0; kv_head < params.n_kv_heads; ++kv_head) {
      for (int32_t span = 0; span < piece.n_spans; ++span) {
        Item item = ItemOf(piece, kv_head);
        item.first_span = span;
        item.end_span = span + 1;
        item.parts = parts;
        items[next++] = item;
      }
    }
  }
}

// a and b, if b goes on where a ends.
bool Append(Item& a, const Item& b) {
  if (b.first_row != a.first_row || b.kv_head != a.kv_head || b.first_span != a.end_span) {
    return false;
  }
  a.end_span = b.end_span;
  return true;
}

void RunAll(const Params& params,
            std::span<const Item> items,
            const ItemKernel& kernel,
            Stream& stream) {
  const Arithmetic arithmetic = stream.arithmetic;
  stream.team.Run(std::ssize(items), [&](int64_t begin, int64_t end, int32_t) {
    const simd::FlushDenormals flush(arithmetic);
    for (int64_t i = begin; i < end;) {
      Item item = items[static_cast<size_t>(i++)];
      while (i < end && Append(item, items[static_cast<size_t>(i)])) ++i;
      kernel.run(params, item);
    }
  });
}

// record <- record and other, the one behind it.
void Join(float* record, const float* other, int32_t head_dim) {
  const float top = std::max(record[head_dim + 1], other[head_dim + 1]);
  const float a = simd::Exp2(record[head_dim + 1] - top);
  const float b = simd::Exp2(other[head_dim + 1] - top);
  for (int32_t i = 0; i <= head_dim; ++i) record[i] = record[i] * a + other[i] * b;
  record[head_dim + 1] = top;
}

void JoinParts(const Params& params, std::span<const Piece> pieces, const Parts& parts) {
  const simd::FlushDenormals flush(Arithmetic::kFloat32);
  for (const Piece& piece : pieces) {
    for (int64_t row = piece.first_row; row < piece.first_row + piece.n_rows; ++row) {
      for (int64_t head = row * params.n_heads; head < (row + 1) * params.n_heads; ++head) {
        float* record = parts.At(params, head, 0);
        for (int32_t span = 1; span <= params.positions[row] / kSpan; ++span) {
          Join(record, parts.At(params, head, span), params.head_dim);
        }
        Bf16* out = params.out + head * params.head_dim;
        for (int32_t i = 0; i < params.head_dim; ++i) {
          out[i] = ToBf16(record[i] / record[params.head_dim]);
        }
      }
    }
  }
}

}  // namespace

void RunItems(const Params& params, Stream& stream, const ItemKernel& kernel) {
  const int64_t n_each = RowsEach(params, kernel.n_queries);
  const int64_t n_pieces = NumPieces(params, n_each);
  const int64_t n_items = n_pieces * params.n_kv_heads;
  // Room is asked for once, for all that there may be.
  int64_t n_rows = 0;
  int64_t n_spans = 0;
  int64_t n_span_items = 0;
  for (const Sequence* s = params.sequences; s != params.sequences + params.n_sequences; ++s) {
    if (s->n_rows == 0) continue;
    const int64_t end = s->first_row + s->n_rows;
    const int64_t n_here = params.positions[end - 1] / kSpan + 1;
    n_rows = std::max(n_rows, end);
    n_spans = std::max(n_spans, n_here);
    n_span_items += (s->n_rows + n_each - 1) / n_each * params.n_kv_heads * n_here;
  }
  const int64_t n_wanted = kItemsPerThread * stream.team.n_workers();
  const bool by_spans =
      kernel.takes_spans && stream.team.n_workers() > 1 && n_spans > 1 && n_items < n_wanted;
  const int64_t n_records =
      by_spans ? n_rows * params.n_heads * n_spans * (params.head_dim + 2) : 0;
  struct Room {
    std::span<Piece> pieces;
    std::span<Item> items;
    std::span<float> records;
  };
  const auto lay_out = [&](Arena& arena) {
    Room room;
    room.pieces = arena.Take<Piece>(n_pieces);
    room.items = arena.Take<Item>(by_spans ? n_span_items : n_items);
    room.records = arena.Take<float>(n_records);
    return room;
  };
  Arena counting;
  lay_out(counting);
  Arena arena(stream.Room(counting.n_taken()));
  const auto [pieces, items, records] = lay_out(arena);
  CutPieces(params, n_each, pieces);
  if (!by_spans) {
    WholeItems(params, pieces, items);
    return RunAll(params, items, kernel, stream);
  }
  int64_t n_used = 0;
  for (const Piece& piece : pieces) n_used += int64_t{piece.n_spans} * params.n_kv_heads;
  const Parts parts{.records = records.data(), .n_spans = n_spans};
  const std::span<Item> used = items.first(static_cast<size_t>(n_used));
  SpanItems(params, pieces, parts, used);
  RunAll(params, used, kernel, stream);
  JoinParts(params, pieces, parts);
}

}  // namespace sluice::ops::gqa_attention
