// Logits: what a request does to a row of logits before a token is drawn, and what is told of it
// after (spec dspark.md §9.3). Pure functions; thread-safe.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "wire/event.h"
#include "wire/request.h"

namespace sluice::engine {

// How often each token was generated, in any order.
struct TokenCount {
  TokenId token;
  int32_t n = 0;
};
void Count(TokenId token, std::vector<TokenCount>& counts);

// A row with an infinity or NaN is the mark of a sick sequence.
bool IsFinite(std::span<const float> logits);

bool HasPenalties(const wire::SamplingParams& params);
// Whether Adjust would change anything.
bool Adjusts(const wire::SamplingParams& params);
// In this order: logit_bias, frequency and presence penalty. Tokens are within the row.
void Adjust(const wire::SamplingParams& params,
            std::span<const TokenCount> generated,
            std::span<float> logits);

// Of the row as the model gave it: before bias, penalties, temperature and cuts. Alternatives by
// falling probability, ties by rising id; the token itself is among them if it is likely enough.
wire::TokenLogprob LogprobOf(std::span<const float> logits, TokenId token, int32_t n_top);

}  // namespace sluice::engine
