#include "engine/sampling/logits.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"

namespace sluice::engine {

void Count(TokenId token, std::vector<TokenCount>& counts) {
  const auto at = std::find_if(counts.begin(), counts.end(),
                               [token](const TokenCount& count) { return count.token == token; });
  if (at != counts.end()) {
    ++at->n;
  } else {
    counts.push_back({.token = token, .n = 1});
  }
}

bool IsFinite(std::span<const float> logits) {
  return std::all_of(logits.begin(), logits.end(), [](float x) { return std::isfinite(x); });
}

bool HasPenalties(const wire::SamplingParams& params) {
  return params.frequency_penalty != 0 || params.presence_penalty != 0;
}

bool Adjusts(const wire::SamplingParams& params) {
  return HasPenalties(params) || !params.logit_bias.empty();
}

void Adjust(const wire::SamplingParams& params,
            std::span<const TokenCount> generated,
            std::span<float> logits) {
  const auto logit_of = [logits](TokenId token) -> float& {
    SLUICE_CHECK(token.value >= 0 && token.value < std::ssize(logits));
    return logits[static_cast<size_t>(token.value)];
  };
  for (const wire::LogitBias& bias : params.logit_bias) logit_of(bias.token) += bias.bias;
  if (!HasPenalties(params)) return;
  for (const TokenCount& count : generated) {
    logit_of(count.token) -=
        static_cast<float>(params.frequency_penalty * count.n + params.presence_penalty);
  }
}

wire::TokenLogprob LogprobOf(std::span<const float> logits, TokenId token, int32_t n_top) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  const double log_sum = largest + std::log(sum);
  const auto logprob_of = [&](int32_t id) {
    return static_cast<float>(logits[static_cast<size_t>(id)] - log_sum);
  };

  wire::TokenLogprob result{.logprob = logprob_of(token.value), .alternatives = {}};
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto n_listed = std::min<std::ptrdiff_t>(n_top, std::ssize(ids));
  std::partial_sort(ids.begin(), ids.begin() + n_listed, ids.end(), [&](int32_t a, int32_t b) {
    const float x = logits[static_cast<size_t>(a)];
    const float y = logits[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  });
  for (std::ptrdiff_t i = 0; i < n_listed; ++i) {
    const int32_t id = ids[static_cast<size_t>(i)];
    result.alternatives.push_back({.token = TokenId(id), .logprob = logprob_of(id)});
  }
  return result;
}

}  // namespace sluice::engine
