// hop 8 of 10: after Forward, before Commit.

#include "engine/sampling/sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/check.h"
#include "base/rng.h"

namespace sluice::engine {
namespace {

// Noise is -log of a uniform number of at most 1 - 2^-53 (base/rng.h): above this.
constexpr double kLeastNoise = 0x1p-53;

// The first of the largest: a maximum of each of 16 columns, for vector registers, then its place.
int32_t ArgMax(const float* logits, int64_t n) {
  constexpr int64_t kColumns = 16;
  float columns[kColumns];
  std::fill_n(columns, kColumns, logits[0]);
  int64_t i = 0;
  for (; i + kColumns <= n; i += kColumns) {
    for (int64_t c = 0; c < kColumns; ++c) {
      columns[c] = logits[i + c] > columns[c] ? logits[i + c] : columns[c];
    }
  }
  float largest = *std::max_element(columns, columns + kColumns);
  for (; i < n; ++i) largest = std::max(largest, logits[i]);
  return static_cast<int32_t>(std::find(logits, logits + n, largest) - logits);
}

// For x <= 0: at least e^x, even rounded up, and at most 6.2 % more; at least e^-700. Between
// powers of two, 2^y lies below the straight line that the bits of a mantissa are.
double ExpFromAbove(double x) {
  constexpr double kLog2E = 1.4426950408889634;
  constexpr int64_t kBiasAndSlack = (int64_t{1023} << 52) + (1 << 14);  // of the roundings here
  const auto bits = static_cast<int64_t>(std::max(x, -700.0) * kLog2E * 0x1p52);
  return std::bit_cast<double>(bits + kBiasAndSlack);
}

// The largest weight / noise so far.
class Race {
 public:
  Race(uint64_t seed, int64_t position) : seed_(seed), position_(static_cast<uint64_t>(position)) {}

  double Uniform(int32_t id) const {
    return RandomUniform(
        {.seed = seed_, .position = position_, .stream = kTargetDraw | static_cast<uint32_t>(id)});
  }
  void Run(int32_t id, double weight, double uniform) {
    const double score = weight / -std::log(uniform);
    if (score < best_score_ || (score == best_score_ && id > winner_)) return;
    best_score_ = score;
    winner_ = id;
  }
  double best_score() const { return best_score_; }
  TokenId winner() const { return TokenId(winner_); }

 private:
  const uint64_t seed_;
  const uint64_t position_;
  double best_score_ = -1;
  int32_t winner_ = 0;
};

// The race of a whole row. The likeliest token runs first; for nearly all others a bound shows that
// they cannot win, which saves their exponential and logarithm, or their random number, too.
void RunAll(std::span<const float> logits, const SampleParams& params, int32_t best, Race& race) {
  const double largest = logits[static_cast<size_t>(best)];
  race.Run(best, 1, race.Uniform(best));
  const float* const row = logits.data();
  const auto n = static_cast<int32_t>(logits.size());
  for (int32_t id = 0; id < n; ++id) {
    const double x = (row[id] - largest) / params.temperature;
    const double weight_max = ExpFromAbove(x);
    if (weight_max < params.min_p || weight_max < race.best_score() * kLeastNoise) continue;
    const double uniform = race.Uniform(id);
    if (weight_max < race.best_score() * (1 - uniform)) continue;  // -log(u) >= 1 - u
    const double weight = std::exp(x);
    if (weight >= params.min_p) race.Run(id, weight, uniform);
  }
}

}  // namespace

std::optional<TokenId> Sampler::Sample(std::span<const float> logits,
                                       const SampleParams& params,
                                       int64_t position) {
  SLUICE_CHECK(!logits.empty());
  const int32_t best = ArgMax(logits.data(), std::ssize(logits));
  const double largest = logits[static_cast<size_t>(best)];
  if (std::isinf(largest)) return std::nullopt;
  if (params.temperature < kGreedyTemperature) return TokenId(best);
  Race race(params.seed, position);
  const bool cuts_count = params.top_k > 0 && params.top_k < std::ssize(logits);
  if (!cuts_count && params.top_p >= 1) {
    RunAll(logits, params, best, race);
    return race.winner();
  }
  Collect(logits, largest, params);
  if (cuts_count && params.top_k < std::ssize(candidates_)) {
    KeepCount(params.top_k);
    KeepMassOfSorted(params.top_p);
  } else if (params.top_p < 1) {
    KeepMass(params.top_p);
  }
  for (const auto& [id, weight] : candidates_) race.Run(id, weight, race.Uniform(id));
  return race.winner();
}

bool Sampler::IsBefore(const Candidate& a, const Candidate& b) {
  return a.weight != b.weight ? a.weight > b.weight : a.id < b.id;
}

void Sampler::Collect(std::span<const float> logits, double largest, const SampleParams& params) {
  candidates_.clear();
  candidates_.reserve(logits.size());
  for (size_t id = 0; id < logits.size(); ++id) {
    const double x = (logits[id] - largest) / params.temperature;
    if (ExpFromAbove(x) < params.min_p) continue;
    const double weight = std::exp(x);
    // The likeliest token has weight 1.
    if (weight > 0 && weight >= params.min_p) {
      candidates_.push_back({static_cast<int32_t>(id), weight});
    }
  }
}

// Sorted.
void Sampler::KeepCount(int32_t top_k) {
  const auto end = candidates_.begin() + top_k;
  std::nth_element(candidates_.begin(), end, candidates_.end(), &IsBefore);
  candidates_.erase(end, candidates_.end());
  std::sort(candidates_.begin(), candidates_.end(), &IsBefore);
}

// The set is that of KeepMassOfSorted, whose mass is a sum by falling weight. The sum in another
// order differs by less than `slack`; only when that could move the cut everything is sorted.
void Sampler::KeepMass(double top_p) {
  double mass = 0;
  for (const Candidate& candidate : candidates_) mass += candidate.weight;
  const auto n = static_cast<double>(candidates_.size());
  // All that are lighter than this weigh less than 1 - top_p together: the cut comes before them.
  const double light = (1 - top_p) * mass / n;
  const auto heavy_end =
      std::partition(candidates_.begin(), candidates_.end(),
                     [light](const Candidate& candidate) { return candidate.weight > light; });
  std::sort(candidates_.begin(), heavy_end, &IsBefore);
  const double slack = mass * n * 0x1p-51;  // two sums, n roundings each, twice that for the rest
  double seen = 0;
  auto end = candidates_.begin();
  while (end != heavy_end && seen < top_p * mass - slack) seen += (end++)->weight;
  if (seen > top_p * mass + slack) {
    candidates_.erase(end, candidates_.end());
    return;
  }
  std::sort(candidates_.begin(), candidates_.end(), &IsBefore);
  KeepMassOfSorted(top_p);
}

void Sampler::KeepMassOfSorted(double top_p) {
  double mass = 0;
  for (const Candidate& candidate : candidates_) mass += candidate.weight;
  // The token that crosses the bound belongs to the set.
  double seen = 0;
  auto end = candidates_.begin();
  while (end != candidates_.end() && seen < top_p * mass) seen += (end++)->weight;
  candidates_.erase(std::max(end, candidates_.begin() + 1), candidates_.end());
}

}  // namespace sluice::engine
