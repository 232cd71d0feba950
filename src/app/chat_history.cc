#include "app/chat_history.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/json_writer.h"

namespace sluice::app {
namespace {

std::string Message(std::string_view role, std::string_view text) {
  std::string out;
  JsonWriter w(out);
  w.Object().Key("role").String(role).Key("content").String(text).EndObject();
  return out;
}

bool IsNumber(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == text.npos;
}

}  // namespace

void ChatHistory::AddUser(std::string_view text) { messages_.push_back(Message("user", text)); }

void ChatHistory::AddResult(const ChatCall& call, std::string_view text) {
  JsonWriter w(messages_.emplace_back());
  w.Object().Key("role").String("tool").Key("tool_call_id").String(call.id);
  w.Key("content").String(text).EndObject();
}

void ChatHistory::AddAnswer(const ChatAnswer& answer) {
  JsonWriter w(messages_.emplace_back());
  w.Object().Key("role").String("assistant").Key("content").String(answer.content);
  if (!answer.reasoning.empty()) w.Key("reasoning_content").String(answer.reasoning);
  if (!answer.calls.empty()) {
    w.Key("tool_calls").Array();
    for (const ChatCall& call : answer.calls) {
      w.Object().Key("id").String(call.id).Key("type").String("function").Key("function");
      w.Object().Key("name").String(call.name).Key("arguments").String(call.arguments);
      w.EndObject().EndObject();
    }
    w.EndArray();
  }
  w.EndObject();
}

std::string ChatHistory::ToBody() const {
  std::string body;
  JsonWriter w(body);
  w.Object().Key("model").String(model).Key("stream").Bool(true);
  w.Key("stream_options").Object().Key("include_usage").Bool(true).EndObject();
  if (n_max > 0) w.Key("max_tokens").Int(n_max);
  if (temperature >= 0) w.Key("temperature").Double(temperature);
  if (!effort.empty()) {
    w.Key("reasoning_effort");
    IsNumber(effort) ? w.Raw(effort) : w.String(effort);
  }
  if (!tools.empty()) w.Key("tools").Raw(tools);
  w.Key("messages").Array();
  if (!system.empty()) w.Raw(Message("system", system));
  for (const std::string& message : messages_) w.Raw(message);
  w.EndArray().EndObject();
  return body;
}

Result<std::string> ReadEffort(std::string_view text) {
  constexpr std::string_view kNames[] = {"minimal", "low", "medium", "high", "xhigh", "max"};
  if (text == "on") return std::string("75");  // what a server takes if nothing is said
  if (text == "off") return std::string("none");
  int32_t number = 0;
  const bool is_number = IsNumber(text) && text.size() <= 3;
  if (is_number) std::from_chars(text.data(), text.data() + text.size(), number);
  if (number >= 1 && number <= 100) return std::to_string(number);
  if (std::ranges::find(kNames, text) != std::end(kNames)) return std::string(text);
  return Status::Invalid("on, off, minimal, low, medium, high, xhigh, max, or 1 to 100");
}

}  // namespace sluice::app
