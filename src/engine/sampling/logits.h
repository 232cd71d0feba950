// Logits: what a request does to a row of logits before a token is drawn, and what is told of it
// after. Pure functions; thread-safe.
//
// The order, that of vLLM (spec dspark.md §9.3). Each row has the tokens before it as its history.
// 1. LogprobOf: of the row as the model gave it
// 2. Adjust: mask (tokens that are never drawn) · minimum length (the end token and stop ids) ·
//    logit_bias · repetition penalty, over prompt and output · frequency and presence penalty,
//    over output
// 3. Sampler: temperature · min_p · top_k · top_p · draw
// A masked token has the logit -inf, which nothing behind the mask changes.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "wire/event.h"
#include "wire/request.h"

namespace sluice::engine {

// How often a token was generated; 0: it is in the prompt only.
struct TokenCount {
  TokenId token;
  int32_t n = 0;
};
// What penalties know of the tokens before a row; by id.
using TokenHistory = std::vector<TokenCount>;
// Of a prompt, whose tokens are below `n_vocab`. Only the repetition penalty looks at it.
TokenHistory HistoryOf(std::span<const TokenId> prompt, int32_t n_vocab);
void Count(TokenId token, TokenHistory& history);

// A row with an infinity or NaN is the mark of a sick sequence.
bool IsFinite(std::span<const float> logits);

// What is done to a row. All tokens are within it.
struct Adjustment {
  const wire::SamplingParams& sampling;
  std::span<const TokenId> banned;    // never drawn
  std::span<const TokenId> stop_ids;  // not drawn before sampling.n_min tokens, like eos
  std::optional<TokenId> eos;
  int32_t n_generated = 0;
  std::span<const TokenCount> history;  // with penalties only
};

bool HasPenalties(const wire::SamplingParams& params);
// Whether Adjust may change anything.
bool Adjusts(const Adjustment& adjustment);
void Adjust(const Adjustment& adjustment, std::span<float> logits);

// Alternatives by falling probability, ties by rising id; the token itself is among them if it is
// likely enough. All values are finite.
wire::TokenLogprob LogprobOf(std::span<const float> logits, TokenId token, int32_t n_top);

}  // namespace sluice::engine
