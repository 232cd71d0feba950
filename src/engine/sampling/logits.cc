#include "engine/sampling/logits.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace sluice::engine {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLargest = std::numeric_limits<float>::max();

// The rule of HF and vLLM: a penalty above 1 makes the token less likely on either side of 0.
float Repeated(float logit, double penalty) {
  // A tiny penalty must not make an infinity, which would beat everything and itself.
  return static_cast<float>(logit > 0 ? std::min(logit / penalty, double{kLargest})
                                      : logit * penalty);
}

}  // namespace

TokenHistory HistoryOf(std::span<const TokenId> prompt, int32_t n_vocab) {
  std::vector<uint8_t> is_there(static_cast<size_t>(n_vocab));
  for (const TokenId token : prompt) is_there[static_cast<size_t>(token.value)] = 1;
  TokenHistory history;
  for (int32_t id = 0; id < n_vocab; ++id) {
    if (is_there[static_cast<size_t>(id)] != 0) history.push_back({.token = TokenId(id)});
  }
  return history;
}

void Count(TokenId token, TokenHistory& history) {
  auto at = std::lower_bound(
      history.begin(), history.end(), token,
      [](const TokenCount& count, TokenId id) { return count.token.value < id.value; });
  if (at == history.end() || at->token != token) at = history.insert(at, {.token = token});
  ++at->n;
}

// Without an early end, so that the compiler can take several at once.
bool IsFinite(std::span<const float> logits) {
  int32_t n_infinite = 0;
  for (const float logit : logits) {
    const auto magnitude = std::bit_cast<int32_t>(logit) & 0x7FFF'FFFF;
    n_infinite += magnitude >= 0x7F80'0000 ? 1 : 0;
  }
  return n_infinite == 0;
}

bool HasPenalties(const wire::SamplingParams& params) {
  return params.frequency_penalty != 0 || params.presence_penalty != 0 ||
         params.repetition_penalty != 1;
}

bool Adjusts(const Adjustment& adjustment) {
  const wire::SamplingParams& sampling = adjustment.sampling;
  return !adjustment.banned.empty() || adjustment.n_generated < sampling.n_min ||
         !sampling.logit_bias.empty() || HasPenalties(sampling);
}

void Adjust(const Adjustment& adjustment, std::span<float> logits) {
  const wire::SamplingParams& sampling = adjustment.sampling;
  const auto logit_of = [logits](TokenId token) -> float& {
    SLUICE_CHECK(token.value >= 0 && token.value < std::ssize(logits));
    return logits[static_cast<size_t>(token.value)];
  };
  for (const TokenId token : adjustment.banned) logit_of(token) = -kInfinity;
  if (adjustment.n_generated < sampling.n_min) {
    if (adjustment.eos) logit_of(*adjustment.eos) = -kInfinity;
    for (const TokenId token : adjustment.stop_ids) logit_of(token) = -kInfinity;
  }
  for (const wire::LogitBias& bias : sampling.logit_bias) logit_of(bias.token) += bias.bias;
  if (!HasPenalties(sampling)) return;
  for (const TokenCount& count : adjustment.history) {
    float& logit = logit_of(count.token);
    if (sampling.repetition_penalty != 1) logit = Repeated(logit, sampling.repetition_penalty);
    if (count.n == 0) continue;
    logit -= static_cast<float>(sampling.frequency_penalty * count.n + sampling.presence_penalty);
  }
}

wire::TokenLogprob LogprobOf(std::span<const float> logits, TokenId token, int32_t n_top) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  const double log_sum = largest + std::log(sum);
  const auto logprob_of = [&](float logit) {
    return static_cast<float>(std::max(logit - log_sum, -double{kLargest}));
  };

  const float own = logits[static_cast<size_t>(token.value)];
  const auto before = logits.first(static_cast<size_t>(token.value));
  const auto n_better = std::ranges::count_if(logits, [own](float logit) { return logit > own; }) +
                        std::ranges::count(before, own);
  wire::TokenLogprob result{
      .logprob = logprob_of(own), .rank = static_cast<int32_t>(n_better) + 1, .alternatives = {}};
  if (n_top == 0) return result;
  const auto n_listed = static_cast<size_t>(n_top);
  auto& listed = result.alternatives;
  listed.reserve(n_listed + 1);
  // Logits, until all are there.
  for (size_t id = 0; id < logits.size(); ++id) {
    const float logit = logits[id];
    if (listed.size() == n_listed && logit <= listed.back().logprob) continue;
    const auto place = std::find_if(listed.begin(), listed.end(),
                                    [logit](const auto& other) { return other.logprob < logit; });
    listed.insert(place, {.token = TokenId(static_cast<int32_t>(id)), .logprob = logit});
    if (listed.size() > n_listed) listed.pop_back();
  }
  for (auto& alternative : listed) alternative.logprob = logprob_of(alternative.logprob);
  return result;
}

}  // namespace sluice::engine
