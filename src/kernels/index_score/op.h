// Index scores of the entries a row may see (spec model.md §3.4):
//   I(j) = bf16(sum_h bf16(w_h * relu(bf16(iq_h . key_j)))), heads ascending
// Dots are one chain, pairs ascending, the odd element first, each product rounded, then added (all
// are exact, being normal or 0, unless queries and keys are both tiny); the sum over heads is one
// chain. All roundings to bf16 are the reference's,
// so equal scores are common.

#pragma once

#include <cstdint>
#include <vector>

#include "tensor/formats.h"
#include "tensor/paged.h"
#include "tensor/stream.h"

namespace sluice::ops::index_score {

struct Row {
  PagedRows keys;         // of the row's sequence
  int64_t n_visible = 0;  // entries [0, n_visible)
};

struct Params {
  const Bf16* q = nullptr;        // [n_rows, n_heads, head_dim]: values of QDQ4m
  const Bf16* weights = nullptr;  // [n_rows, n_heads]
  const Row* rows = nullptr;      // [n_rows]
  int64_t n_rows = 0;
  int32_t n_heads = 0;
  int32_t head_dim = 0;     // keys are stored rows of kFp4Mx
  float* scores = nullptr;  // [n_rows, stride]; only the visible ones are written
  int64_t stride = 0;
};

inline constexpr int32_t kMaxHeadDim = 256;
inline constexpr int32_t kMaxQuery = 8192;  // n_heads * head_dim

void Run(const Params& params, Stream& stream);

// What there are variants for, best first.
std::vector<Isa> Isas();
// Which one Run takes.
Isa ChosenIsa(const Params& params, const Stream& stream);

namespace avx512bf16 {
void Run(const Params& params, Stream& stream);
}
namespace ref {
void Run(const Params& params, Stream& stream);
}

}  // namespace sluice::ops::index_score
