// Usage: tokens of one request by kind. Filled by hop 9 (the service) and hop 10 (reasoning, which
// is text); nobody else computes one. Plain data.

#pragma once

#include <cstdint>

#include "base/trace.h"

namespace sluice::wire {

struct Usage {
  int32_t n_prompt = 0;      // tokens, cached ones included
  int32_t n_cached = 0;      // of the prompt, served from the KV cache
  int32_t n_completion = 0;  // generated tokens up to the stop; the end token does not count
  int32_t n_reasoning =
      0;  // of the completion: tokens of the emitted reasoning text (spec recipe.md §8.5)
};

// Work: what one request cost its service, for traces, as Usage is for bills.
struct Work {
  // Hops 3 to 9. A step in which it had rows counts in full, whoever else had some: so long it
  // waited.
  RequestTrace zones;
  int32_t n_steps = 0;      // in which it had rows
  int64_t n_rows = 0;       // that ran for it
  int64_t n_replayed = 0;   // of them, to rebuild windows
  int32_t n_preempted = 0;  // times it gave its memory to another
  int32_t n_forked = 0;     // cached tokens that another one computed at the same time
  int32_t n_loaded = 0;     // cached tokens that came from the store

  void Add(const Work& other) {
    zones.Add(other.zones);
    n_steps += other.n_steps;
    n_rows += other.n_rows;
    n_replayed += other.n_replayed;
    n_preempted += other.n_preempted;
    n_forked += other.n_forked;
    n_loaded += other.n_loaded;
  }
};

}  // namespace sluice::wire
