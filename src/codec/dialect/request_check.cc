#include "codec/dialect/request_check.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/limits.h"
#include "codec/call_id.h"
#include "codec/dialect/field.h"

namespace sluice::codec {
namespace {

// A client's field name as it may stand in a response header: one `?` for each character that may
// not.
std::string HeaderName(std::string_view name) {
  std::string safe;
  for (char c : Shorten(name)) {
    const bool continues = (static_cast<uint8_t>(c) & 0xC0) == 0x80;  // of a UTF-8 sequence
    if (!continues) safe += c > ' ' && c < 0x7F && c != ',' ? c : '?';
  }
  return safe;
}

}  // namespace

Status NoObject(const JsonValue& root) {
  return Status::Invalid(
      fmt::format("invalid request body: it must be a JSON object, not {}", Describe(root)));
}

Status CheckModel(std::string_view asked, const PrepareContext& context) {
  std::vector<std::string> names = context.model.aliases;
  names.push_back(context.model.name);
  if (std::ranges::find(names, asked) != names.end()) return Status::Ok();
  const std::vector<std::string>& others = context.model.other_names;
  if (std::ranges::find(others, asked) != others.end()) return Status::Ok();
  std::ranges::sort(names);
  std::string text = fmt::format("The supported API model names are {}, but you passed {}.",
                                 fmt::join(names, ", "), Shorten(asked));
  if (!context.profile.extensions) return Status::Invalid(std::move(text));
  return Named(Status(ErrorCode::kModelNotFound, std::move(text)), "model");
}

Status ReadRange(std::string_view name,
                 std::optional<double> asked,
                 std::pair<double, double> range,
                 std::string_view range_text,
                 double& into) {
  if (!asked) return Status::Ok();
  if (!InRange(*asked, range.first, range.second)) {
    return Status::Invalid(
        fmt::format("Invalid {} value, the valid range of {} is {}", name, name, range_text));
  }
  into = *asked + 0.0;  // -0 is 0
  return Status::Ok();
}

Status CheckOutputLimit(std::string_view name,
                        const std::optional<uint64_t>& asked,
                        const ModelCard& model,
                        bool is_scored) {
  const uint64_t n_least = is_scored ? 0 : 1;
  if (!asked || (*asked >= n_least && *asked <= static_cast<uint64_t>(model.n_output_max)))
    return Status::Ok();
  return Status::Invalid(fmt::format("Invalid {} value, the valid range of {} is [{}, {}]", name,
                                     name, n_least, model.n_output_max));
}

Status ReadStreamOptions(const JsonValue& value, RawStream& stream) {
  if (!value.is_object()) return WrongValue("stream_options", "an object", value);
  stream.has_options = true;
  return ReadBool("stream_options.include_usage", value.Find("include_usage"),
                  stream.include_usage);
}

Status TakeStream(const RawStream& stream, AnswerSpec& answer) {
  answer.stream = stream.on.value_or(false);
  if (stream.has_options && !answer.stream) {
    return Status::Invalid("stream_options should be set along with stream = true");
  }
  answer.include_usage = stream.include_usage.value_or(false);
  return Status::Ok();
}

Status CheckUser(const std::optional<std::string_view>& user) {
  if (!user || user->size() <= limits::kMaxUserIdBytes) return Status::Ok();
  return Status::InvalidField("user", fmt::format("`user` has {} bytes, at most {} are allowed",
                                                  user->size(), limits::kMaxUserIdBytes));
}

bool ContainsJsonWord(const std::vector<Message>& messages) {
  constexpr std::string_view kWord = "json";
  auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 32) : c; };
  return std::ranges::any_of(messages, [&](const Message& message) {
    return !std::ranges::search(message.text, kWord, {}, lower).empty();
  });
}

bool HasItsReasoning(const std::vector<Message>& messages, bool has_tools) {
  for (auto m = messages.rbegin(); m != messages.rend() && m->role != Role::kUser; ++m) {
    if (m->role != Role::kAssistant || m->reasoning || (m->calls.empty() && !has_tools)) continue;
    if (!HasEmptyThinkingMark(m->calls)) return false;
  }
  return true;
}

Status TakeUnknownField(std::string_view name, bool strict, std::vector<std::string>& listed) {
  if (strict) {
    std::string shown = Shorten(name);
    return Status::InvalidField(shown, fmt::format("`{}` is not a field of this endpoint", shown));
  }
  if (std::ssize(listed) < limits::kMaxIgnoredFieldsListed) listed.push_back(HeaderName(name));
  return Status::Ok();
}

}  // namespace sluice::codec
