// Strong ids: things that get confused are different types. No arithmetic, explicit conversion.
// Plain values.

#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

namespace sluice {

template <typename Tag, typename Rep>
struct Id {
  Rep value{};

  constexpr Id() = default;
  constexpr explicit Id(Rep v) : value(v) {}
  friend constexpr auto operator<=>(const Id&, const Id&) = default;
};

using RequestId = Id<struct RequestIdTag, uint64_t>;  // unique in one process; 0 is no request
using TenantId =
    Id<struct TenantIdTag, uint32_t>;  // index into the key table; 0 is the anonymous tenant
using TokenId = Id<struct TokenIdTag, int32_t>;  // index into the vocabulary

struct IdHash {
  template <typename Tag, typename Rep>
  size_t operator()(Id<Tag, Rep> id) const {
    // Ids are dense counters: a multiplicative mix spreads them over the table.
    return static_cast<size_t>(static_cast<uint64_t>(id.value) * 0x9E3779B97F4A7C15ull);
  }
};

}  // namespace sluice
