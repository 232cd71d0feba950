// Stream: where operators run and in which arithmetic. Handed down by reference; owned by the
// engine thread.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/buffer.h"
#include "tensor/isa.h"
#include "tensor/thread_team.h"

namespace sluice {

enum class Arithmetic : uint8_t {
  // float32, every dot product one chain in a fixed order (spec cpu-kernels.md §3.0), denormals
  // flushed: what runs, and what every CPU variant must equal to the bit.
  kFloat32,
  // Sums in double, rounded once to float32; elementary functions in double, rounded once: the
  // arithmetic of the goldens, in which the order of addition does not matter. `ref` only.
  kExact,
};

struct Stream {
  ThreadTeam& team;
  Arithmetic arithmetic = Arithmetic::kFloat32;
  IsaChoice isas;
  Buffer room;

  // Room for n bytes, any content, of the operator that runs: the next one has it again. Kept, so
  // that a step allocates nothing once a larger one was run.
  std::span<std::byte> Room(int64_t n) {
    if (room.size() < n) room = Buffer(n);
    return {room.data(), static_cast<size_t>(n)};
  }
};

}  // namespace sluice
