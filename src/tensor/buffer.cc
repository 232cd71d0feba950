#include "tensor/buffer.h"

#include <cstdlib>
#include <cstring>
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
  const size_t room = static_cast<size_t>(RoundUp(n_bytes));
  data_ = static_cast<std::byte*>(std::aligned_alloc(kBufferAlignment, room));
  SLUICE_CHECK(data_ != nullptr);
  std::memset(data_, 0, room);
}

Buffer::~Buffer() { std::free(data_); }

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), n_bytes_(std::exchange(other.n_bytes_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
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
