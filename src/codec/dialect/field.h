// Readers of one JSON field of a request, for all dialects. A field that is absent or null leaves
// `into` as it is. Errors name the field, what came (shortened) and what is allowed. Pure
// functions.
//
// error.param stays empty for what the reference codec checks too (its answers, spec recipe.md
// §7.5, have none: the text names the field); checks of our own fields add it with Named.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace sluice::codec {

// At most kShownBytes of a client's text, cut between characters, with `…` in place of the rest.
inline constexpr size_t kShownBytes = 64;
std::string Shorten(std::string_view text);

// "the string \"abc\"", "the number 1.5", "an array", "nothing": never more than a short line.
std::string Describe(const JsonValue& value);

// "`path` must be a boolean, not the string \"no\""; of what is absent, that it is missing.
Status WrongValue(std::string_view path, std::string_view allowed, const JsonValue& got);
Status Missing(std::string_view path, std::string_view allowed);

// The same status with error.param.
Status Named(Status status, std::string_view param);

Status ReadBool(std::string_view path, const JsonValue& value, std::optional<bool>& into);
Status ReadNumber(std::string_view path, const JsonValue& value, std::optional<double>& into);
Status ReadUint(std::string_view path, const JsonValue& value, std::optional<uint64_t>& into);
Status ReadString(std::string_view path,
                  const JsonValue& value,
                  std::optional<std::string_view>& into);

// `lower`: ASCII, lower case.
bool StartsWithIgnoringCase(std::string_view text, std::string_view lower);

// Finite and in [low, high]; written so that NaN fails.
bool InRange(double value, double low, double high);

}  // namespace sluice::codec
