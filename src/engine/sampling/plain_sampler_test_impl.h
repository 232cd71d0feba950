// The sampler as its definition reads: everything is computed and sorted. What Sampler answers is
// this, bit for bit. Pure function.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/rng.h"
#include "engine/sampling/sampler.h"

namespace sluice::engine {

struct PlainCandidate {
  int32_t id;
  double weight;
};

// The candidates that are left, by falling weight.
inline std::vector<PlainCandidate> PlainCandidates(std::span<const float> logits,
                                                   const SampleParams& params) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  std::vector<PlainCandidate> left;
  for (size_t id = 0; id < logits.size(); ++id) {
    const double weight = std::exp((logits[id] - largest) / params.temperature);
    if (weight > 0 && weight >= params.min_p) left.push_back({static_cast<int32_t>(id), weight});
  }
  std::sort(left.begin(), left.end(), [](const PlainCandidate& a, const PlainCandidate& b) {
    return a.weight != b.weight ? a.weight > b.weight : a.id < b.id;
  });
  const bool cuts_count = params.top_k > 0 && params.top_k < std::ssize(left);
  if (cuts_count) left.resize(static_cast<size_t>(params.top_k));
  if (!cuts_count && params.top_p >= 1) return left;
  double mass = 0;
  for (const PlainCandidate& candidate : left) mass += candidate.weight;
  double seen = 0;
  size_t n_kept = 0;
  while (n_kept < left.size() && seen < params.top_p * mass) seen += left[n_kept++].weight;
  left.resize(std::max(n_kept, size_t{1}));
  return left;
}

inline std::optional<TokenId> PlainSample(std::span<const float> logits,
                                          const SampleParams& params,
                                          int64_t position) {
  const auto best = std::max_element(logits.begin(), logits.end());
  if (std::isinf(*best)) return std::nullopt;
  if (params.temperature < kGreedyTemperature) {
    return TokenId(static_cast<int32_t>(best - logits.begin()));
  }
  PlainCandidate winner{-1, 0};
  double top = -1;
  for (const PlainCandidate& candidate : PlainCandidates(logits, params)) {
    const double noise =
        -std::log(RandomUniform({.seed = params.seed,
                                 .position = static_cast<uint64_t>(position),
                                 .stream = kTargetDraw | static_cast<uint32_t>(candidate.id)}));
    const double score = candidate.weight / noise;
    if (score < top || (score == top && candidate.id > winner.id)) continue;
    top = score;
    winner = candidate;
  }
  return TokenId(winner.id);
}

}  // namespace sluice::engine
