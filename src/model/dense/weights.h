// Weights: the tensors of a source as the forward pass uses them. Matrices are views into the
// mapped files, as they are stored; vectors (norms and biases) are read as float32.
//
// Immutable after Bind; any thread may read. The Source outlives it.
//
// Matrix shapes are [n_out, n_in]. D = hidden_size, H = query heads, KV = heads of keys and values.

#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/checkpoint/value_sum.h"
#include "model/dense/source.h"
#include "tensor/matrix.h"

namespace sluice::model::dense {

struct LayerWeights {
  std::vector<float> attention_norm;        // [D]
  Matrix query;                             // [H * head_dim, D]
  Matrix key, value;                        // [KV * head_dim, D]
  std::vector<float> query_bias;            // [H * head_dim], or empty
  std::vector<float> key_bias, value_bias;  // [KV * head_dim], or empty
  Matrix output;                            // [D, H * head_dim]
  std::vector<float> feed_forward_norm;     // [D]
  Matrix gate, up;                          // [intermediate_size, D]
  Matrix down;                              // [D, intermediate_size]
};

struct Weights {
  Matrix embedding;         // [vocab, D]
  Matrix head;              // [vocab, D]; the embedding itself where they are tied
  std::vector<float> norm;  // [D]
  std::vector<LayerWeights> layers;

  // Presence and shape of every tensor, and that there is none too many. kInvalidArgument with the
  // tensor. Reads the vectors only.
  static Result<Weights> Bind(const Source& source);

  // What op linear and block_linear read, and nobody else: to be packed. An embedding that is also
  // the head is among them.
  std::vector<Matrix*> ToPack();
};

// ValueCheck: reads every weight once, in the order of the files, and so brings it into memory.
// Whoever made it calls Step until done, and may tell of the progress in between. Every value, and
// every scale of a block, is finite.
class ValueCheck {
 public:
  // The source outlives this.
  explicit ValueCheck(const Source& source);

  bool done() const { return next_ == tensors_.size(); }
  // The next piece, at most some MiB. kCorrupt with file, tensor, place.
  Status Step();

  // Once done: of all bytes that were read.
  const ValueSum& sum() const { return sum_; }

  int64_t done_bytes() const { return done_bytes_; }
  int64_t total_bytes() const { return total_bytes_; }
  // The file that the next piece lies in; the last one when done.
  std::string_view file() const;

 private:
  const Source& source_;
  std::vector<const StoredTensor*> tensors_;  // by place
  size_t next_ = 0;
  int64_t next_row_ = 0;  // within the next tensor
  int64_t done_bytes_ = 0;
  int64_t total_bytes_ = 0;
  ValueSum sum_ = kEmptySum;
};

}  // namespace sluice::model::dense
