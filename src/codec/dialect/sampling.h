// Sampling values, limits and stop strings of a request, checked for all dialects (spec recipe.md
// §6). The texts are the reference's where it checks the value too. Pure functions.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "codec/dialect.h"
#include "wire/request.h"

namespace sluice::codec {

Status ReadTemperature(std::optional<double> asked, double& into);
Status ReadTopP(std::optional<double> asked, double& into);
Status ReadPenalty(std::string_view name, std::optional<double> asked, double& into);

// `n`; 0 gets the words of the reference, which knows 1 only.
Status ReadChoices(const std::optional<uint64_t>& asked,
                   const Profile& profile,
                   int32_t& n_choices);

Status CheckSeed(const std::optional<uint64_t>& asked);

// {"17": -100}: token ids as decimal keys; absent: none.
Status ReadLogitBias(const JsonValue& value,
                     int32_t n_vocabulary,
                     std::vector<wire::LogitBias>& biases);

// What vLLM's clients send to Chat and Completions and the hosted service does not know, as it
// came.
struct RawSamplerFields {
  JsonValue min_p;
  JsonValue min_tokens;
  JsonValue prompt_logprobs;
  JsonValue repetition_penalty;
  JsonValue stop_token_ids;
};
// Whether prompt_logprobs asks for scores; its value is checked by ReadSamplerFields.
inline bool AsksForScores(const RawSamplerFields& raw, const Profile& profile) {
  return profile.extensions && raw.prompt_logprobs.exists();
}
// After the output limit, which min_tokens may not pass, and `stream`. Without extensions they have
// no effect.
Status ReadSamplerFields(const RawSamplerFields& raw,
                         const PrepareContext& context,
                         DecodedRequest& request);

// `stop` as a client wrote it: one string or a list of them.
struct RawStops {
  bool is_list = false;
  std::vector<std::string_view> texts;
};
// Types only. `field` names it in messages.
Status ReadStopField(std::string_view field, const JsonValue& value, RawStops& stops);
// Their number and length. `field` is the request's own name, for limits of ours.
Status CheckStops(std::string_view field, const RawStops& raw, std::vector<std::string>& stops);

// The hosted service's fixed values, unless the profile honours what was asked.
void ApplySamplingPolicy(const Profile& profile, bool thinking, wire::SamplingParams& sampling);

}  // namespace sluice::codec
