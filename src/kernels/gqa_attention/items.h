// How the work of op gqa_attention is cut for threads. What an item is says nothing about bits: a
// row is summed in spans whatever it is part of (op.h). Private to the op.
//
// An item is a few rows of one sequence for one group of heads, over all positions. Where that
// gives the threads too little to share (few rows behind a long text) each span is an item of its
// own, leaves what it found in Parts, and spans are joined at the end.

#pragma once

#include <cstdint>

#include "kernels/gqa_attention/op.h"

namespace sluice::ops::gqa_attention {

inline constexpr int32_t kSpan = 256;  // positions of one softmax

// Sums of spans that are joined later: of each query head of each row of the batch its spans, of
// each span head_dim totals, the weight and the top.
struct Parts {
  float* records = nullptr;
  int64_t n_spans = 0;  // room for as many

  float* At(const Params& params, int64_t query_head, int64_t span) const {
    return records + (query_head * n_spans + span) * (params.head_dim + 2);
  }
};

struct Item {
  const Sequence* sequence = nullptr;
  int64_t first_row = 0;  // of the batch
  int32_t n_rows = 0;
  int32_t kv_head = 0;
  int32_t first_span = 0;
  int32_t end_span = 0;
  Parts parts;  // records null: all spans, and the item writes the output
};

struct ItemKernel {
  int32_t n_queries = 0;  // rows times heads of a group that one item takes, if there are as many
  bool takes_spans = false;  // knows Parts
  void (*run)(const Params& params, const Item& item) = nullptr;
};

// All items on the threads of the stream, denormals flushed unless its arithmetic is exact.
void RunItems(const Params& params, Stream& stream, const ItemKernel& kernel);

}  // namespace sluice::ops::gqa_attention
