// Stream: where operators run and in which arithmetic. Handed down by reference; owned by the
// engine thread.

#pragma once

#include <cstdint>

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
};

}  // namespace sluice
