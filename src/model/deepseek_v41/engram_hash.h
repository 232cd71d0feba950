// Which rows of the Engram tables a position reads (spec model.md §3.6 and Appendix A). Constant
// after construction; thread-safe.
//
// A position is described by the classes of its token and of the max_ngram - 1 tokens before it.
// Every (n-gram order, head) pair owns a range of rows whose length is a prime; the n-gram's hash
// modulo the prime is the row in that range. Tables were trained with these rows: one other
// multiplier or prime, and every look-up reads noise.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace sluice::model::deepseek_v41 {

// Stands for a token that takes part in no n-gram (of an image span) and for none at all.
inline constexpr int32_t kNoClass = -1;

struct EngramHashParams {
  std::span<const int32_t> layer_ids;  // primes are given out in this order and never again
  int32_t max_ngram = 0;               // N >= 2: orders 2 to N
  int32_t n_heads = 0;                 // per order
  int64_t vocab_size = 0;  // engram_vocab_size >= 2: each (layer, order) searches primes from here
  int64_t n_classes = 0;   // engram_compressed_vocab_size, 1 to 2^30: gives the multipliers
};

struct EngramHashLayer {
  int32_t layer_id = 0;
  // Columns are ordered by order, then by head: n_lookups = (max_ngram - 1) * n_heads.
  std::vector<int64_t> primes;       // [n_lookups]
  std::vector<int64_t> offsets;      // [n_lookups]: first row of each range
  std::vector<int64_t> multipliers;  // [max_ngram], by how far back the token is
  int64_t n_rows = 0;                // of the table
};

struct EngramHash {
  explicit EngramHash(const EngramHashParams& params);

  std::vector<EngramHashLayer> layers;  // as layer_ids
};

// Rows of one position, rows [n_lookups], each in [0, layer.n_rows).
// classes: newest first; may be shorter than max_ngram at the start of a sequence, longer is not
// read. From the first missing one or kNoClass on, all older ones count as pad_class.
void HashRows(const EngramHashLayer& layer,
              std::span<const int32_t> classes,
              int32_t pad_class,
              int64_t* rows);

}  // namespace sluice::model::deepseek_v41
