// Buffer: zeroed bytes at a 64-byte boundary. Arena: a buffer handed out once, front to back.
// Owned by whoever made them.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"

namespace sluice {

inline constexpr int64_t kBufferAlignment = 64;

class Buffer {
 public:
  Buffer() = default;
  enum class Pages : uint8_t {
    kAny,
    kHuge,  // 2 MiB where the system gives them: for what is filled soon and read often
  };
  // Ends the process when there is no memory: sizes are budgeted before.
  explicit Buffer(int64_t n_bytes, Pages pages = Pages::kAny);
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;

  std::byte* data() const { return data_; }
  int64_t size() const { return n_bytes_; }

 private:
  std::byte* data_ = nullptr;
  int64_t n_bytes_ = 0;
};

// Take<T>(n) gives uninitialised room for n values. A counting arena (no buffer) gives null spans
// and only adds up, so that one function both plans a workspace and lays it out.
class Arena {
 public:
  Arena() = default;  // counting
  explicit Arena(std::span<std::byte> memory) : memory_(memory), counting_(false) {}

  template <typename T>
  std::span<T> Take(int64_t n) {
    std::byte* at = TakeBytes(n * static_cast<int64_t>(sizeof(T)));
    return {reinterpret_cast<T*>(at), at == nullptr ? 0 : static_cast<size_t>(n)};
  }
  int64_t n_taken() const { return n_taken_; }

 private:
  std::byte* TakeBytes(int64_t n_bytes);

  std::span<std::byte> memory_;
  bool counting_ = true;
  int64_t n_taken_ = 0;
};

}  // namespace sluice
