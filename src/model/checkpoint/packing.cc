#include "model/checkpoint/packing.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/check.h"
#include "tensor/packed.h"

namespace sluice::model {
namespace {

int64_t RoundUp(int64_t n) {
  return (n + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

}  // namespace

Packing::Packing(std::vector<Matrix*> matrices) {
  for (Matrix* matrix : matrices) {
    if (PackedBytes(*matrix) > 0) matrices_.push_back(matrix);
  }
  std::ranges::sort(matrices_, std::less<>(), [](const Matrix* m) { return m->data; });
  const void* before = nullptr;
  for (const Matrix* matrix : matrices_) {
    if (matrix->data != before) total_bytes_ += RoundUp(PackedBytes(*matrix));
    before = matrix->data;
  }
  memory_ = Buffer(total_bytes_, Buffer::Pages::kHuge);
}

ConstBytes Packing::Step(ThreadTeam& team) {
  SLUICE_CHECK(!done());
  const Matrix from = *matrices_[next_];
  std::byte* out = memory_.data() + done_bytes_;
  const bool packs = CanPack(from);
  if (packs) {
    team.Run(StripesOf(from), [&](int64_t begin, int64_t end, int32_t) {
      PackStripes(from, begin, end - begin, out);
    });
  }
  Matrix packed = from;
  packed.layout = MatrixLayout::kPacked;
  packed.data = out;
  if (from.format != MatrixFormat::kFp8) packed.scales = nullptr;
  for (; !done() && matrices_[next_]->data == from.data; ++next_) {
    if (packs) *matrices_[next_] = packed;
  }
  done_bytes_ += RoundUp(PackedBytes(from));
  if (!packs) return {};
  return {static_cast<const std::byte*>(from.data),
          static_cast<size_t>(from.n_out * RowBytesOf(from))};
}

Buffer Packing::Take() {
  SLUICE_CHECK(done());
  return std::move(memory_);
}

}  // namespace sluice::model
