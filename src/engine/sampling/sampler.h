// The token that follows, from a row of logits (spec dspark.md §9.3; the steps before this one and
// their order: logits.h). Pure function of its arguments.
//
// The draw is an exponential race: with noise e(id) ~ Exp(1) the token with the largest
// p(id) / e(id) has the law p. The noise is a function of (seed, position, id), so the same request
// draws the same token at the same position in whatever order, batch or process it is computed,
// and a draft that uses the same noise is compared with it by equality (spec dspark.md §6.4).
//
// What is computed is what plain_sampler_test_impl.h writes down, bit for bit; how, is in
// sampler.cc: nothing is sorted but what may be kept, and no memory is taken once a row has passed.
// Owned by one thread.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"

namespace sluice::engine {

struct SampleParams {
  double temperature = 1;  // >= 0; below kGreedyTemperature: the largest logit
  double top_p = 1;        // (0, 1]: the smallest set of the likeliest tokens with this mass
  int32_t top_k = 0;       // 0: all
  double min_p = 0;        // [0, 1]: of the largest probability
  uint64_t seed = 0;
};
inline constexpr double kGreedyTemperature = 1e-5;

// Stream of the random number that decides between tokens of the model; the id is in the low half
// (spec dspark.md §9.3).
inline constexpr uint64_t kTargetDraw = uint64_t{1} << 32;

class Sampler {
 public:
  // logits [n_vocab] without NaN and +inf; position: absolute, of the token drawn. In this order:
  // temperature, min_p, top_k, top_p, draw. Ties go to the lower id. Nothing if all are -inf.
  std::optional<TokenId> Sample(std::span<const float> logits,
                                const SampleParams& params,
                                int64_t position);

 private:
  struct Candidate {
    int32_t id;
    double weight;  // not normalised: e^((logit - largest) / temperature)
  };
  static bool IsBefore(const Candidate& a, const Candidate& b);

  void Collect(std::span<const float> logits, double largest, const SampleParams& params);
  void KeepCount(int32_t top_k);
  void KeepMass(double top_p);
  void KeepMassOfSorted(double top_p);

  std::vector<Candidate> candidates_;  // kept for its memory
};

}  // namespace sluice::engine
