// What of a prompt was found, where, and why the rest was not: tokens, for the metrics. Each token
// of a prompt is counted once. Pure but for the counters it adds to.

#pragma once

#include <cstdint>

#include "engine/sequence.h"
#include "kv/cache.h"

namespace sluice::engine {

// `sequence` starts with `hit`; how many tokens of it the store brought. `shares`: as
// Cache::Params.
int32_t AccountForHit(Sequence& sequence,
                      const kv::Cache::Hit& hit,
                      const kv::Cache& cache,
                      bool shares);
// A fork: nothing of its prompt is computed.
void AccountForFork(const Sequence& sequence);

}  // namespace sluice::engine
