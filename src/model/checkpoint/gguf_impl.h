// What the two halves of GgufFile share: values at a place of the file, which the caller knows to
// lie within it. Pure functions.

#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/bytes.h"
#include "model/checkpoint/gguf.h"

namespace sluice::model {

inline constexpr uint32_t kGgufTypes = 13;

// Bytes of one value; 0 for strings and lists, which say it themselves.
constexpr int64_t SizeOf(GgufType type) {
  constexpr int64_t kBytes[kGgufTypes] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return kBytes[static_cast<size_t>(type)];
}

// Values stand at any byte.
template <typename T>
T ValueAt(ConstBytes file, int64_t at) {
  T value{};
  std::memcpy(&value, file.data() + at, sizeof value);
  return value;
}

inline std::string_view TextAt(ConstBytes file, int64_t at, int64_t n) {
  return {reinterpret_cast<const char*>(file.data()) + at, static_cast<size_t>(n)};
}

}  // namespace sluice::model
