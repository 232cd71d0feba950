// TokenTexts: the bytes of every token, and the way back from bytes to the token.
// Immutable once indexed; any thread may read.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::token {

class TokenTexts {
 public:
  // The text of the next id.
  void Append(std::string_view text);

  // Makes Find know the tokens with is_found [size()]. The first of them whose text an earlier one
  // has, or -1; after that Find must not be asked. The seed must not be known to whoever chose the
  // texts: with it he could choose ones that collide.
  [[nodiscard]] int32_t Index(std::span<const uint8_t> is_found, uint64_t seed);

  int32_t size() const { return static_cast<int32_t>(ends_.size()); }
  std::string_view operator[](int32_t id) const {
    const auto i = static_cast<size_t>(id);
    const uint32_t begin = i == 0 ? 0 : ends_[i - 1];
    return std::string_view(bytes_).substr(begin, ends_[i] - begin);
  }
  // The token with these bytes, or -1.
  int32_t Find(std::string_view text) const;

 private:
  struct Slot {
    uint32_t tag;     // the upper half of the hash
    int32_t id = -1;  // -1: free
  };

  std::string bytes_;
  std::vector<uint32_t> ends_;
  std::vector<Slot> slots_;  // a power of two, at most half of them used
  size_t n_found_max_ = 0;   // bytes of the longest text that Find knows
  uint64_t seed_ = 0;
};

}  // namespace sluice::token
