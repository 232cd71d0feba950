#include "codec/dialect/chat/messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/limits.h"
#include "codec/dialect/billing_header.h"
#include "codec/dialect/chat/parts.h"
#include "codec/dialect/field.h"

namespace sluice::codec::chat {
namespace {

struct RoleName {
  std::string_view name;
  Role role;
  bool is_developer;
};
constexpr RoleName kRoles[] = {
    {"system", Role::kSystem, false}, {"developer", Role::kSystem, true},
    {"user", Role::kUser, false},     {"assistant", Role::kAssistant, false},
    {"tool", Role::kTool, false},     {"latest_reminder", Role::kLatestReminder, false},
};
constexpr std::string_view kRoleNames =
    "one of system, developer, user, assistant, tool, latest_reminder";

Status ReadRole(const std::string& path, const JsonValue& value, RawMessage& message) {
  if (!value.exists()) return Missing(path, kRoleNames);
  for (const RoleName& role : kRoles) {
    if (!value.is_string() || value.AsString() != role.name) continue;
    message.role = role.role;
    message.is_developer = role.is_developer;
    return Status::Ok();
  }
  return WrongValue(path, kRoleNames, value);
}

Status ReadMessageContent(const std::string& path, const JsonValue& value, RawMessage& message) {
  const bool is_optional = message.role == Role::kAssistant;
  if (is_optional && (!value.exists() || value.is_null())) return Status::Ok();
  if (!value.exists()) return Missing(path, "a string or a list of parts");
  if (message.role == Role::kLatestReminder && !value.is_string())
    return WrongValue(path, "a string", value);
  SLUICE_TRY(CheckContentShape(path, value));
  message.content = value;
  return Status::Ok();
}

Status ReadCall(const std::string& path, const JsonValue& value, RawCall& call) {
  if (!value.is_object()) return WrongValue(path, "an object", value);
  JsonValue type = value.Find("type");
  if (type.exists() && !(type.is_string() && type.AsString() == "function")) {
    return WrongValue(path + ".type", "\"function\"", type);
  }
  JsonValue function = value.Find("function");
  if (!function.is_object()) return Missing(path + ".function", "an object");
  std::optional<std::string_view> id, name, arguments;
  SLUICE_TRY(ReadString(path + ".id", value.Find("id"), id));
  if (!id) return Missing(path + ".id", "a string");
  SLUICE_TRY(ReadString(path + ".function.name", function.Find("name"), name));
  if (!name) return Missing(path + ".function.name", "a string");
  SLUICE_TRY(ReadString(path + ".function.arguments", function.Find("arguments"), arguments));
  if (!arguments) return Missing(path + ".function.arguments", "a string");
  call = {.id = *id, .name = *name, .arguments = *arguments};
  return Status::Ok();
}

Status ReadAssistantFields(const std::string& path, const JsonValue& value, RawMessage& message) {
  // vLLM's clients call it `reasoning`; a DeepSeek field beside it wins.
  SLUICE_TRY(ReadString(path + ".reasoning", value.Find("reasoning"), message.reasoning));
  SLUICE_TRY(
      ReadString(path + ".reasoning_content", value.Find("reasoning_content"), message.reasoning));
  JsonValue calls = value.Find("tool_calls");
  if (!calls.exists() || calls.is_null()) return Status::Ok();
  if (!calls.is_array()) return WrongValue(path + ".tool_calls", "an array", calls);
  message.has_calls = true;
  for (JsonValue call : calls.elements()) {
    std::string call_path = fmt::format("{}.tool_calls[{}]", path, message.calls.size());
    SLUICE_TRY(ReadCall(call_path, call, message.calls.emplace_back()));
  }
  return Status::Ok();
}

Status ReadMessage(const std::string& path, const JsonValue& value, RawMessage& message) {
  if (!value.is_object()) return WrongValue(path, "an object", value);
  SLUICE_TRY(ReadRole(path + ".role", value.Find("role"), message));
  SLUICE_TRY(ReadMessageContent(path + ".content", value.Find("content"), message));
  std::optional<bool> prefix;
  SLUICE_TRY(ReadBool(path + ".prefix", value.Find("prefix"), prefix));
  message.is_prefix = prefix.value_or(false);
  if (message.role == Role::kAssistant) return ReadAssistantFields(path, value, message);
  if (message.role == Role::kTool) {
    std::optional<std::string_view> id;
    SLUICE_TRY(ReadString(path + ".tool_call_id", value.Find("tool_call_id"), id));
    if (!id) return Missing(path + ".tool_call_id", "a string");
    message.tool_call_id = *id;
  }
  return Status::Ok();
}

// Which calls of the latest assistant message still wait for their result.
class OpenCalls {
 public:
  Status Open(int32_t index, const std::vector<RawCall>& calls) {
    ids_.clear();
    for (const RawCall& call : calls) {
      if (!ids_.insert(call.id).second) return Duplicate(call.id, index);
    }
    answered_.clear();
    return Status::Ok();
  }

  Status Answer(int32_t index, std::string_view id) {
    if (answered_.size() == ids_.size()) {
      return Status::Invalid(
          "Messages with role 'tool' must be a response to a preceding message with 'tool_calls'");
    }
    if (!ids_.contains(id)) {
      return Status::Invalid(fmt::format(
          "An assistant message with 'tool_calls' must be followed by tool messages responding to "
          "each 'tool_call_id', The following tool_call_ids did not have response messages: {}",
          Shorten(id)));
    }
    return answered_.insert(id).second ? Status::Ok() : Duplicate(id, index);
  }

  Status CheckClosed() const {
    if (answered_.size() == ids_.size()) return Status::Ok();
    return Status::Invalid(
        "An assistant message with 'tool_calls' must be followed by tool messages responding to "
        "each 'tool_call_id'. (insufficient tool messages following tool_calls message)");
  }

  void Close() {
    ids_.clear();
    answered_.clear();
  }

 private:
  static Status Duplicate(std::string_view id, int32_t index) {
    return Status::Invalid(
        fmt::format("Duplicate value for 'tool_call_id' of {} in message[{}]", Shorten(id), index));
  }
  std::set<std::string_view> ids_;
  std::set<std::string_view> answered_;
};

Status ConvertAssistant(int32_t index, const RawMessage& raw, Message& message) {
  if (raw.has_calls && raw.calls.empty()) {
    return Status::Invalid(fmt::format(
        "Invalid 'messages[{}].tool_calls': empty array. Expected an array with minimum length 1, "
        "but got an empty array instead.",
        index));
  }
  if (!raw.content.exists() && !raw.has_calls) {
    return Status::Invalid("Invalid assistant message: content or tool_calls must be set");
  }
  if (raw.reasoning) message.reasoning = std::string(*raw.reasoning);
  for (const RawCall& call : raw.calls) {
    message.calls.push_back({.id = std::string(call.id),
                             .name = std::string(call.name),
                             .arguments = std::string(call.arguments)});
  }
  return Status::Ok();
}

}  // namespace

Status ReadMessages(const JsonValue& value, std::vector<RawMessage>& messages) {
  if (!value.is_array()) return WrongValue("messages", "an array", value);
  if (value.size() > limits::kMaxMessages) {
    return Status::InvalidField(
        "messages", fmt::format("`messages` has {} entries, at most {} are allowed", value.size(),
                                limits::kMaxMessages));
  }
  messages.reserve(static_cast<size_t>(value.size()));
  for (JsonValue element : value.elements()) {
    std::string path = fmt::format("messages[{}]", messages.size());
    SLUICE_TRY(ReadMessage(path, element, messages.emplace_back()));
  }
  return Status::Ok();
}

Status ConvertMessages(const std::vector<RawMessage>& raw, std::vector<Message>& messages) {
  if (raw.empty()) return Status::Invalid("Empty input messages");
  messages.reserve(raw.size());
  OpenCalls open;
  for (size_t i = 0; i < raw.size(); ++i) {
    const int32_t index = static_cast<int32_t>(i);
    const RawMessage& r = raw[i];
    if (r.role == Role::kTool) {
      SLUICE_TRY(open.Answer(index, r.tool_call_id));
    } else {
      SLUICE_TRY(open.CheckClosed());
      open.Close();
    }
    Message message;
    message.role = r.role;
    if (r.role == Role::kAssistant) {
      SLUICE_TRY(ConvertAssistant(index, r, message));
      SLUICE_TRY(open.Open(index, r.calls));
    }
    SLUICE_TRY(ReadContent(index, r.content, message));
    message.tool_call_id = std::string(r.tool_call_id);
    message.is_prefix = r.is_prefix;
    message.is_developer = r.is_developer;
    if (r.role == Role::kSystem) {
      StripBillingHeader(message.text, LetterCase::kExact);
      if (message.text.empty() && message.images.empty())
        continue;  // so that the users around it join
    }
    messages.push_back(std::move(message));
  }
  return open.CheckClosed();
}

Status CheckPrefixPosition(const std::vector<RawMessage>& raw) {
  for (size_t i = 0; i < raw.size(); ++i) {
    if (!raw[i].is_prefix || (i + 1 == raw.size() && raw[i].role == Role::kAssistant)) continue;
    return Status::Invalid(
        "Invalid completion message: prefix set true with message which is not final message or "
        "message role is not assistant");
  }
  return Status::Ok();
}

}  // namespace sluice::codec::chat
