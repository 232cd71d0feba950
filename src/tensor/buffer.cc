#include "tensor/buffer.h"

#include <cstdlib>
#include <cstdint>
#include <utility>

#include "base/check.h"

namespace sluice {
namespace {

int64_t RoundUp(int64_t n_bytes) {
  return (n_bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

}  // namespace

Buffer::Buffer(int64_t n_bytes) : n_bytes_(n_bytes) {
  SLUICE_CHECK(n_bytes >= 0);
  if (n_bytes == 0) return;
  // Not aligned_alloc and a memset: large memory comes from the system as zeros, page by page when
  // it is first used.
  const auto room = static_cast<size_t>(RoundUp(n_bytes) + kBufferAlignment);
  allocated_ = std::calloc(room, 1);
  SLUICE_CHECK(allocated_ != nullptr);
  const auto address = reinterpret_cast<uintptr_t>(allocated_);
  data_ = reinterpret_cast<std::byte*>((address + kBufferAlignment - 1) / kBufferAlignment *
                                       kBufferAlignment);
}

Buffer::~Buffer() { std::free(allocated_); }

Buffer::Buffer(Buffer&& other) noexcept
    : allocated_(std::exchange(other.allocated_, nullptr)),
      data_(std::exchange(other.data_, nullptr)),
      n_bytes_(std::exchange(other.n_bytes_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(allocated_, other.allocated_);
  std::swap(data_, other.data_);
  std::swap(n_bytes_, other.n_bytes_);
  return *this;
}

std::byte* Arena::TakeBytes(int64_t n_bytes) {
  SLUICE_CHECK(n_bytes >= 0);
  const int64_t begin = n_taken_;
  n_taken_ += RoundUp(n_bytes);
  if (counting_) return nullptr;
  SLUICE_CHECK(n_taken_ <= static_cast<int64_t>(memory_.size()));
  return memory_.data() + begin;
}

}  // namespace sluice
