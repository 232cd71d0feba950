#include "tensor/buffer.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace sluice {
namespace {

// Below, sanitizers watch the ends of what the allocator gives.
constexpr int64_t kMappedBytes = 64 << 20;

int64_t RoundUp(int64_t n_bytes) {
  return (n_bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

}  // namespace

// Large memory comes from the system as zeros, page by page when it is first used; an allocator
// would write the zeros, gigabytes of them.
Buffer::Buffer(int64_t n_bytes, Pages pages) : n_bytes_(n_bytes) {
  SLUICE_CHECK(n_bytes >= 0);
  if (n_bytes == 0) return;
  const auto room = static_cast<size_t>(RoundUp(n_bytes));
  if (n_bytes >= kMappedBytes) {
    constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void* mapped = mmap(nullptr, room, PROT_READ | PROT_WRITE, kFlags, -1, 0);
    SLUICE_CHECK(mapped != MAP_FAILED);
    // A kernel without huge pages says no, and nothing is lost.
    if (pages == Pages::kHuge) static_cast<void>(madvise(mapped, room, MADV_HUGEPAGE));
    data_ = static_cast<std::byte*>(mapped);
    return;
  }
  data_ = static_cast<std::byte*>(std::aligned_alloc(kBufferAlignment, room));
  SLUICE_CHECK(data_ != nullptr);
  std::memset(data_, 0, room);
}

Buffer::~Buffer() {
  if (n_bytes_ < kMappedBytes) {
    std::free(data_);
  } else {
    SLUICE_CHECK(munmap(data_, static_cast<size_t>(RoundUp(n_bytes_))) == 0);
  }
}

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
