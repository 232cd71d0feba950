#include "model/checkpoint/packing.h"

#include <algorithm>
#include <functional>
#include <span>
#include <utility>

#include "base/check.h"
#include "tensor/packed.h"

namespace sluice::model {
namespace {

std::span<std::byte> TakeRoom(const Matrix& matrix, Arena& arena) {
  return arena.Take<std::byte>(PackedBytes(matrix));
}

}  // namespace

Packing::Packing(std::vector<Matrix*> matrices) {
  for (Matrix* matrix : matrices) {
    if (PackedBytes(*matrix) > 0) matrices_.push_back(matrix);
  }
  std::ranges::sort(matrices_, std::less<>(), [](const Matrix* m) { return m->data; });
  Arena counting;
  const void* before = nullptr;
  for (const Matrix* matrix : matrices_) {
    if (matrix->data != before) TakeRoom(*matrix, counting);
    before = matrix->data;
  }
  total_bytes_ = counting.n_taken();
  memory_ = Buffer(total_bytes_, Buffer::Pages::kHuge);
  room_ = Arena({memory_.data(), static_cast<size_t>(total_bytes_)});
}

ConstBytes Packing::Step(ThreadTeam& team) {
  SLUICE_CHECK(!done());
  const Matrix from = *matrices_[next_];
  std::byte* out = TakeRoom(from, room_).data();
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
  if (!packs) return {};
  return {static_cast<const std::byte*>(from.data),
          static_cast<size_t>(from.n_out * RowBytesOf(from))};
}

Buffer Packing::Take() {
  SLUICE_CHECK(done());
  return std::move(memory_);
}

}  // namespace sluice::model
