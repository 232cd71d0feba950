// Element types of tensors, by the names safetensors files give them. Plain values.

#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace sluice {

enum class DType : uint8_t { kBf16, kF32, kF8E4m3, kF8E8m0, kI8, kU8, kI32, kI64, kF16 };

// Bytes of one element. I8 holds two packed FP4 codes where a checkpoint uses it; it still counts
// as one.
constexpr int64_t SizeOf(DType dtype) {
  switch (dtype) {
    case DType::kBf16:
    case DType::kF16:
      return 2;
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kI64:
      return 8;
    default:
      return 1;
  }
}

// "BF16", "F8_E4M3", ...
std::string_view NameOf(DType dtype);
std::optional<DType> DTypeOf(std::string_view name);

}  // namespace sluice
