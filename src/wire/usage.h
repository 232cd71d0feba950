// Usage: tokens of one request by kind. Filled by hop 9 (the service) and hop 10 (reasoning, which
// is text); nobody else computes one. Plain data.

#pragma once

#include <cstdint>

namespace sluice::wire {

struct Usage {
  int32_t n_prompt = 0;      // tokens, cached ones included
  int32_t n_cached = 0;      // of the prompt, served from the KV cache
  int32_t n_completion = 0;  // generated tokens up to the stop; the end token does not count
  int32_t n_reasoning =
      0;  // of the completion: tokens of the emitted reasoning text (spec recipe.md §8.5)
};

}  // namespace sluice::wire
