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
using KeyId =
    Id<struct KeyIdTag, uint64_t>;  // an API key as long as it is listed; 0: none is needed
using TokenId = Id<struct TokenIdTag, int32_t>;   // index into the vocabulary
using BlockId = Id<struct BlockIdTag, int32_t>;   // a block of the KV pool
using SlotId = Id<struct SlotIdTag, int32_t>;     // the private state of one sequence
using Ticket = Id<struct TicketTag, uint64_t>;    // an open call of a block store; 0: none
using LeaseId = Id<struct LeaseIdTag, uint64_t>;  // what a block store keeps for a caller; 0: none

}  // namespace sluice
