#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/limits.h"
#include "base/options.h"
#include "codec/dialect/field.h"
#include "codec/script_line_impl.h"

namespace sluice::codec {
namespace {

// A pause longer than a day is a mistake in the script.
constexpr double kMaxPauseMs = 86'400'000;

struct Reader {
  ScriptLine& line;
  int32_t n_vocabulary;
  std::string_view fault_key;  // the `..._after` key seen
  bool has_ids = false;
  bool has_refuse = false;
  Duration retry_after = Duration::Seconds(1);
};

Status Wrong(std::string_view key, std::string_view allowed, const JsonValue& got) {
  return Status::Invalid(fmt::format("\"{}\" must be {}, not {}", key, allowed, Describe(got)));
}

template <typename T>
Status ReadInteger(std::string_view key,
                   const JsonValue& value,
                   std::pair<int64_t, int64_t> range,
                   T& into) {
  if (value.is(JsonKind::kInt) && value.AsInt64() >= range.first &&
      value.AsInt64() <= range.second) {
    into = static_cast<T>(value.AsInt64());
    return Status::Ok();
  }
  return Wrong(key, fmt::format("an integer from {} to {}", range.first, range.second), value);
}

Status ReadPause(std::string_view key, const JsonValue& value, Duration& into) {
  if (!value.is_number() || !InRange(value.AsDouble(), 0, kMaxPauseMs)) {
    return Wrong(key, fmt::format("a number of milliseconds from 0 to {:.0f}", kMaxPauseMs), value);
  }
  into = Duration::Nanos(static_cast<int64_t>(value.AsDouble() * 1e6));
  return Status::Ok();
}

Status ReadText(std::string_view key, const JsonValue& value, std::optional<std::string>& into) {
  if (!value.is_string()) return Wrong(key, "a string", value);
  into = std::string(value.AsString());
  return Status::Ok();
}

// "unknown key …" with the nearest of the known ones.
template <typename Keys>
Status UnknownKey(std::string_view key, std::string_view where, const Keys& keys) {
  std::vector<std::string_view> known;
  for (const auto& k : keys) known.push_back(k.name);
  return Status::Invalid(fmt::format("unknown {} \"{}\"; the nearest known one is \"{}\"", where,
                                     Shorten(key), NearestName(key, known)));
}

struct Condition {
  std::string_view name;
  Status (*read)(const JsonValue& value, ScriptConditions& when);
};
constexpr Condition kConditions[] = {
    {"api",
     [](const JsonValue& v, ScriptConditions& when) {
       constexpr std::string_view kApis[] = {"chat", "responses", "messages", "completions"};
       if (!v.is_string() || std::ranges::find(kApis, v.AsString()) == std::end(kApis)) {
         return Wrong("when.api", "one of chat, responses, messages, completions", v);
       }
       return ReadText("when.api", v, when.api);
     }},
    {"tools",
     [](const JsonValue& v, ScriptConditions& when) {
       if (!v.is_bool()) return Wrong("when.tools", "a boolean", v);
       when.tools = v.AsBool();
       return Status::Ok();
     }},
    {"tool", [](const JsonValue& v,
                ScriptConditions& when) { return ReadText("when.tool", v, when.tool); }},
    {"last", [](const JsonValue& v,
                ScriptConditions& when) { return ReadText("when.last", v, when.last); }},
    {"prompt", [](const JsonValue& v,
                  ScriptConditions& when) { return ReadText("when.prompt", v, when.prompt); }},
};

Status ReadWhen(const JsonValue& value, Reader& r) {
  if (!value.is_object()) return Wrong("when", "an object", value);
  for (JsonMember member : value.members()) {
    const Condition* condition = std::ranges::find(kConditions, member.key, &Condition::name);
    if (condition == std::end(kConditions))
      return UnknownKey(member.key, "condition in \"when\"", kConditions);
    SLUICE_TRY(condition->read(member.value, r.line.when));
  }
  return Status::Ok();
}

Status ReadOut(const JsonValue& value, Reader& r) {
  SLUICE_TRY(ReadText("out", value, r.line.out));
  if (std::ssize(*r.line.out) <= limits::kMaxScriptLineTokens) return Status::Ok();
  return Status::Invalid(fmt::format("\"out\" has {} bytes, at most {} are allowed",
                                     r.line.out->size(), limits::kMaxScriptLineTokens));
}

Status ReadIds(const JsonValue& value, Reader& r) {
  if (!value.is_array()) return Wrong("ids", "a list of token ids", value);
  if (value.size() > limits::kMaxScriptLineTokens) {
    return Status::Invalid(fmt::format("\"ids\" has {} entries, at most {} are allowed",
                                       value.size(), limits::kMaxScriptLineTokens));
  }
  r.has_ids = true;
  r.line.play.ids.reserve(static_cast<size_t>(value.size()));
  for (JsonValue element : value.elements()) {
    int32_t id = 0;
    SLUICE_TRY(ReadInteger(fmt::format("ids[{}]", r.line.play.ids.size()), element,
                           {0, r.n_vocabulary - 1}, id));
    r.line.play.ids.push_back(TokenId(id));
  }
  return Status::Ok();
}

Status ReadTimes(const JsonValue& value, Reader& r) {
  if (value.is_string() && value.AsString() == "always") {
    r.line.times = kAlways;
    return Status::Ok();
  }
  if (value.is(JsonKind::kInt) && value.AsInt64() >= 0) {
    r.line.times = value.AsInt64();
    return Status::Ok();
  }
  return Wrong("times", "a whole number or \"always\"", value);
}

Status ReadFault(std::string_view key,
                 wire::ScriptPlay::Fault fault,
                 const JsonValue& value,
                 Reader& r) {
  if (!r.fault_key.empty()) {
    return Status::Invalid(fmt::format("\"{}\" and \"{}\" exclude each other", r.fault_key, key));
  }
  r.fault_key = key;
  r.line.play.fault = fault;
  return ReadInteger(key, value, {0, INT32_MAX}, r.line.play.fault_after);
}

Status ReadLogprob(const JsonValue& value, Reader& r) {
  // The lower bound is what a float can hold: the value is written into JSON.
  if (!value.is_number() || !InRange(value.AsDouble(), -3e38, 0))
    return Wrong("logprob", "a number, at most 0", value);
  r.line.play.logprob = static_cast<float>(value.AsDouble());
  return Status::Ok();
}

Status ReadRefuse(const JsonValue& value, Reader& r) {
  struct Refusal {
    std::string_view name;
    ErrorCode code;
    std::string_view text;
  };
  // Text of `context` is written by Prepare, which knows the numbers.
  constexpr Refusal kRefusals[] = {
      {"rate_limit", ErrorCode::kRateLimited, "Rate limit reached; try again later"},
      {"overloaded", ErrorCode::kOverloaded, "The server is overloaded; try again later"},
      {"internal", ErrorCode::kInternal, "refused by the script"},
      {"context", ErrorCode::kContextLength, "prompt is too long"},
  };
  std::string_view name = value.is_string() ? value.AsString() : std::string_view();
  const Refusal* refusal = std::ranges::find(kRefusals, name, &Refusal::name);
  if (refusal == std::end(kRefusals))
    return Wrong("refuse", "one of rate_limit, overloaded, internal, context", value);
  r.has_refuse = true;
  r.line.play.refuse = Status(refusal->code, std::string(refusal->text));
  return Status::Ok();
}

struct Key {
  std::string_view name;
  Status (*read)(const JsonValue& value, Reader& r);
};
using Fault = wire::ScriptPlay::Fault;
constexpr Key kKeys[] = {
    {"out", ReadOut},
    {"ids", ReadIds},
    {"refuse", ReadRefuse},
    {"when", ReadWhen},
    {"times", ReadTimes},
    {"tokens_per_event",
     [](const JsonValue& v, Reader& r) {
       return ReadInteger("tokens_per_event", v, {1, limits::kMaxScriptLineTokens},
                          r.line.play.n_per_event);
     }},
    {"pace_ms",
     [](const JsonValue& v, Reader& r) { return ReadPause("pace_ms", v, r.line.play.pace); }},
    {"first_ms",
     [](const JsonValue& v, Reader& r) { return ReadPause("first_ms", v, r.line.play.first); }},
    {"fail_after",
     [](const JsonValue& v, Reader& r) { return ReadFault("fail_after", Fault::kFail, v, r); }},
    {"sick_after",
     [](const JsonValue& v, Reader& r) { return ReadFault("sick_after", Fault::kSick, v, r); }},
    {"hang_after",
     [](const JsonValue& v, Reader& r) { return ReadFault("hang_after", Fault::kHang, v, r); }},
    {"die_after",
     [](const JsonValue& v, Reader& r) { return ReadFault("die_after", Fault::kDie, v, r); }},
    {"logprob", ReadLogprob},
    {"cached_tokens",
     [](const JsonValue& v, Reader& r) {
       return ReadInteger("cached_tokens", v, {0, INT32_MAX}, r.line.play.n_cached);
     }},
    {"retry_after_ms",
     [](const JsonValue& v, Reader& r) {
       int64_t ms = 0;
       SLUICE_TRY(ReadInteger("retry_after_ms", v, {0, static_cast<int64_t>(kMaxPauseMs)}, ms));
       r.retry_after = Duration::Millis(ms);
       return Status::Ok();
     }},
};

}  // namespace

Result<ScriptLine> ReadScriptLine(const JsonValue& value, int32_t n_vocabulary) {
  ScriptLine line;
  Reader r{.line = line, .n_vocabulary = n_vocabulary, .fault_key = {}};
  if (value.is_string()) {
    SLUICE_TRY(ReadOut(value, r));
    return line;
  }
  if (!value.is_object())
    return Status::Invalid(fmt::format("a line is a string or an object, not {}", Describe(value)));
  for (JsonMember member : value.members()) {
    const Key* key = std::ranges::find(kKeys, member.key, &Key::name);
    if (key == std::end(kKeys)) return UnknownKey(member.key, "key", kKeys);
    SLUICE_TRY(key->read(member.value, r));
  }
  if (line.out.has_value() + r.has_ids + r.has_refuse != 1) {
    return Status::Invalid("a line has exactly one of \"out\", \"ids\", \"refuse\"");
  }
  const ErrorCode code = line.play.refuse.code();
  if (code == ErrorCode::kRateLimited || code == ErrorCode::kOverloaded)
    line.play.refuse.set_retry_after(r.retry_after);
  return line;
}

}  // namespace sluice::codec
