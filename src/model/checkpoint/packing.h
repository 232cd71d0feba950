// Packing: the matrices of a model go into the layout that kernels read (tensor/packed.h), into
// memory of their own. Whoever made it calls Step until done. Owned by one thread.

#pragma once

#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "tensor/buffer.h"
#include "tensor/matrix.h"
#include "tensor/thread_team.h"

namespace sluice::model {

// As much as whoever drives a packing does before it looks at other things: some hundredths of a
// second.
inline constexpr int64_t kPackingPieceBytes = 64 << 20;

class Packing {
 public:
  // They are replaced as they are packed, and must stay where they are until it is done. Several
  // may be of the same weight, which is packed once. What has no packed form is left as it is.
  explicit Packing(std::vector<Matrix*> matrices);

  bool done() const { return next_ == matrices_.size(); }
  // The next matrix. Returns where its rows were, if nothing reads them any more: they may be
  // dropped from memory.
  ConstBytes Step(ThreadTeam& team);

  int64_t done_bytes() const { return room_.n_taken(); }  // packed
  int64_t total_bytes() const { return total_bytes_; }    // of those that have a packed form

  // Once done: what the packed matrices lie in.
  Buffer Take();

 private:
  std::vector<Matrix*> matrices_;  // the same weight side by side
  size_t next_ = 0;
  Buffer memory_;
  Arena room_;  // in memory_
  int64_t total_bytes_ = 0;
};

}  // namespace sluice::model
