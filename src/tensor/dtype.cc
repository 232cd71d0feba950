#include "tensor/dtype.h"

#include <array>

namespace sluice {
namespace {

constexpr std::array<std::string_view, 9> kNames = {"BF16", "F32", "F8_E4M3", "F8_E8M0", "I8",
                                                    "U8",   "I32", "I64",     "F16"};

}  // namespace

std::string_view NameOf(DType dtype) { return kNames[static_cast<size_t>(dtype)]; }

std::optional<DType> DTypeOf(std::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

}  // namespace sluice
