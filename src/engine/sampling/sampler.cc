// hop 8 of 10: after Forward, before Commit.

#include "engine/sampling/sampler.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/rng.h"

namespace sluice::engine {
namespace {

// Purposes of random numbers at one position (spec dspark.md §9.3); the id is in the low half.
constexpr uint64_t kTargetDraw = uint64_t{1} << 32;

int32_t ArgMax(std::span<const float> logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

}  // namespace

TokenId Sampler::Sample(std::span<const float> logits,
                        const SampleParams& params,
                        int64_t position) {
  SLUICE_CHECK(!logits.empty());
  const int32_t best = ArgMax(logits);
  if (params.temperature < kGreedyTemperature) return TokenId(best);
  const double largest = logits[static_cast<size_t>(best)];
  candidates_.clear();
  for (size_t id = 0; id < logits.size(); ++id) {
    const double weight = std::exp((logits[id] - largest) / params.temperature);
    // The likeliest token has weight 1.
    if (weight > 0 && weight >= params.min_p) {
      candidates_.push_back({static_cast<int32_t>(id), weight});
    }
  }
  const bool cuts =
      params.top_p < 1 || (params.top_k > 0 && params.top_k < std::ssize(candidates_));
  if (cuts) {
    std::sort(candidates_.begin(), candidates_.end(), [](const Candidate& a, const Candidate& b) {
      return a.weight != b.weight ? a.weight > b.weight : a.id < b.id;
    });
    if (params.top_k > 0 && params.top_k < std::ssize(candidates_)) {
      candidates_.resize(static_cast<size_t>(params.top_k));
    }
    double mass = 0;
    for (const Candidate& candidate : candidates_) mass += candidate.weight;
    // The token that crosses the bound belongs to the set.
    double seen = 0;
    size_t n_kept = 0;
    while (n_kept < candidates_.size() && seen < params.top_p * mass) {
      seen += candidates_[n_kept++].weight;
    }
    candidates_.resize(std::max(n_kept, size_t{1}));
  }
  Candidate winner{best, 0};
  double top = -1;
  for (const Candidate& candidate : candidates_) {
    const double noise =
        -std::log(RandomUniform({.seed = params.seed,
                                 .position = static_cast<uint64_t>(position),
                                 .stream = kTargetDraw | static_cast<uint32_t>(candidate.id)}));
    const double score = candidate.weight / noise;
    if (score > top || (score == top && candidate.id < winner.id)) {
      top = score;
      winner = candidate;
    }
  }
  return TokenId(winner.id);
}

}  // namespace sluice::engine
