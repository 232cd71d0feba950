#include "codec/dialect/sampling.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/limits.h"
#include "codec/dialect/field.h"
#include "codec/dialect/request_check.h"
#include "codec/dialect/token_ids.h"

namespace sluice::codec {
namespace {

// The hosted service's floor of top_p while thinking (spec recipe.md §6).
constexpr double kThinkingTopPMin = 0.95;

Status ReadOwnNumber(std::string_view name,
                     const JsonValue& value,
                     std::pair<double, double> range,
                     std::string_view allowed,
                     double& into) {
  if (!value.exists()) return Status::Ok();
  if (!value.is_number() || !InRange(value.AsDouble(), range.first, range.second))
    return Named(WrongValue(name, allowed, value), name);
  into = value.AsDouble() + 0.0;  // -0 is 0
  return Status::Ok();
}

Status ReadMinTokens(const JsonValue& value, int32_t n_max, int32_t& n_min) {
  constexpr std::string_view kName = "min_tokens";
  if (!value.exists()) return Status::Ok();
  if (!value.is(JsonKind::kInt) || value.AsInt64() < 0 || value.AsInt64() > n_max) {
    const std::string allowed = fmt::format("an integer from 0 to the output limit, {}", n_max);
    return Named(WrongValue(kName, allowed, value), kName);
  }
  n_min = static_cast<int32_t>(value.AsInt64());
  return Status::Ok();
}

Status ReadStopIds(const JsonValue& value, int32_t n_vocabulary, std::vector<TokenId>& ids) {
  constexpr std::string_view kName = "stop_token_ids";
  if (!value.exists()) return Status::Ok();
  if (!value.is_array()) return Named(WrongValue(kName, "a list of token ids", value), kName);
  if (value.size() > limits::kMaxStopIds) {
    return Status::InvalidField(std::string(kName),
                                fmt::format("`{}` has {} entries, at most {} are allowed", kName,
                                            value.size(), limits::kMaxStopIds));
  }
  return Named(ReadTokenIds(kName, value, n_vocabulary, ids), kName);
}

// vLLM's: a list of its own, which its streams do not have either.
Status ReadPromptLogprobs(const JsonValue& value, DecodedRequest& request) {
  constexpr std::string_view kName = "prompt_logprobs";
  if (!value.exists()) return Status::Ok();
  if (!value.is(JsonKind::kInt) || value.AsInt64() < 0 ||
      value.AsInt64() > limits::kMaxTopLogprobs) {
    const std::string allowed = fmt::format("an integer from 0 to {}", limits::kMaxTopLogprobs);
    return Named(WrongValue(kName, allowed, value), kName);
  }
  if (request.answer.stream) {
    return Status::InvalidField(std::string(kName),
                                fmt::format("`{}` cannot be used with `stream`: true", kName));
  }
  const auto n_top = static_cast<int32_t>(value.AsInt64());
  request.answer.prompt_scores.n_top = n_top;
  std::optional<int32_t>& n_asked = request.sampling.n_prompt_logprobs;
  n_asked = std::max(n_asked.value_or(0), n_top);
  return Status::Ok();
}

}  // namespace

Status ReadTemperature(std::optional<double> asked, double& into) {
  return ReadRange("temperature", asked, {0, 2}, "[0, 2]", into);
}

Status ReadTopP(std::optional<double> asked, double& into) {
  return ReadRange("top_p", asked, {kAboveZero, 1}, "(0, 1.0]", into);
}

Status ReadPenalty(std::string_view name, std::optional<double> asked, double& into) {
  return ReadRange(name, asked, {-2, 2}, "[-2, 2]", into);
}

Status ReadChoices(const std::optional<uint64_t>& asked,
                   const Profile& profile,
                   int32_t& n_choices) {
  if (!asked) return Status::Ok();
  // The reference's words for its own limit; golden cases hold clients to them.
  if (*asked == 0 || (*asked > 1 && !profile.sampling_as_asked))
    return Status::Invalid("Invalid n value (currently only n = 1 is supported)");
  if (*asked > limits::kMaxChoices) {
    return Status::InvalidField(
        "n", fmt::format("Invalid n value {}, the valid range of n is [1, {}]", *asked,
                         limits::kMaxChoices));
  }
  n_choices = static_cast<int32_t>(*asked);
  return Status::Ok();
}

Status CheckSeed(const std::optional<uint64_t>& asked) {
  if (!asked || *asked <= static_cast<uint64_t>(INT64_MAX)) return Status::Ok();
  return Status::Invalid("Invalid seed value, the valid range of seed is [0, 2^63)");
}

Status ReadLogitBias(const JsonValue& value,
                     int32_t n_vocabulary,
                     std::vector<wire::LogitBias>& biases) {
  constexpr std::string_view kName = "logit_bias";
  if (value.size() > limits::kMaxLogitBias) {
    return Status::InvalidField(std::string(kName),
                                fmt::format("`{}` has {} entries, at most {} are allowed", kName,
                                            value.size(), limits::kMaxLogitBias));
  }
  for (JsonMember member : value.members()) {
    int32_t id = -1;
    const char* end = member.key.data() + member.key.size();
    auto [parsed, error] = std::from_chars(member.key.data(), end, id);
    const bool is_canonical =
        error == std::errc() && parsed == end && fmt::to_string(id) == member.key;
    if (!is_canonical || id < 0 || id >= n_vocabulary) {
      return Status::InvalidField(
          std::string(kName),
          fmt::format("a key of `{}` must be a token id from 0 to {}, not \"{}\"", kName,
                      n_vocabulary - 1, Shorten(member.key)));
    }
    if (!member.value.is_number() || !InRange(member.value.AsDouble(), -100, 100)) {
      return Named(
          WrongValue(fmt::format("{}.{}", kName, id), "a number from -100 to 100", member.value),
          kName);
    }
    biases.push_back({.token = TokenId(id), .bias = static_cast<float>(member.value.AsDouble())});
  }
  return Status::Ok();
}

Status ReadSamplerFields(const RawSamplerFields& raw,
                         const PrepareContext& context,
                         DecodedRequest& request) {
  if (!context.profile.extensions) return Status::Ok();
  wire::SamplingParams& sampling = request.sampling;
  SLUICE_TRY(ReadOwnNumber("min_p", raw.min_p, {0, 1}, "a number from 0 to 1", sampling.min_p));
  SLUICE_TRY(ReadOwnNumber("repetition_penalty", raw.repetition_penalty, {kAboveZero, 2},
                           "a number above 0 and up to 2", sampling.repetition_penalty));
  SLUICE_TRY(ReadMinTokens(raw.min_tokens, request.n_max_asked.value_or(context.model.n_output_max),
                           sampling.n_min));
  SLUICE_TRY(ReadPromptLogprobs(raw.prompt_logprobs, request));
  return ReadStopIds(raw.stop_token_ids, context.format.n_tokens(), request.stop_ids);
}

Status ReadStopField(std::string_view field, const JsonValue& value, RawStops& stops) {
  if (value.is_string()) {
    stops.texts.push_back(value.AsString());
    return Status::Ok();
  }
  if (!value.is_array()) return WrongValue(field, "a string or a list of strings", value);
  stops.is_list = true;
  for (JsonValue element : value.elements()) {
    if (!element.is_string())
      return WrongValue(fmt::format("{}[{}]", field, stops.texts.size()), "a string", element);
    stops.texts.push_back(element.AsString());
  }
  return Status::Ok();
}

Status CheckStops(std::string_view field, const RawStops& raw, std::vector<std::string>& stops) {
  if (raw.texts.size() > limits::kMaxStops) {
    return Status::Invalid(fmt::format("Stop string array too long: {}", raw.texts.size()));
  }
  for (size_t i = 0; i < raw.texts.size(); ++i) {
    // The reference says `stop` whatever the field's name.
    const std::string path = raw.is_list ? fmt::format("stop[{}]", i) : "stop";
    if (raw.texts[i].empty()) {
      return Status::Invalid(fmt::format(
          "Invalid '{}': empty string. Expected a string with minimum length 1, but got an empty "
          "string instead.",
          path));
    }
    if (raw.texts[i].size() > limits::kMaxStopBytes) {
      return Status::InvalidField(std::string(field),
                                  fmt::format("`{}{}` has {} bytes, at most {} are allowed", field,
                                              std::string_view(path).substr(4), raw.texts[i].size(),
                                              limits::kMaxStopBytes));
    }
    stops.emplace_back(raw.texts[i]);
  }
  return Status::Ok();
}

void ApplySamplingPolicy(const Profile& profile, bool thinking, wire::SamplingParams& sampling) {
  if (profile.sampling_as_asked) return;
  if (thinking) sampling.temperature = 1.0;
  sampling.top_p = thinking ? std::max(sampling.top_p, kThinkingTopPMin) : 1.0;
  sampling.frequency_penalty = 0;
  sampling.presence_penalty = 0;
  sampling.repetition_penalty = 1;
  sampling.min_p = 0;
  sampling.top_k = 0;
  sampling.logit_bias.clear();
}

}  // namespace sluice::codec
