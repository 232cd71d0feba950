#include "load/answer_reader.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/limits.h"

namespace sluice::load {
namespace {

std::string_view TextOf(JsonValue value) {
  return value.is_string() ? value.AsString() : std::string_view();
}
int64_t NumberOf(JsonValue value) { return value.is(JsonKind::kInt) ? value.AsInt64() : 0; }

// What an error of a stream may put into a report.
constexpr size_t kShownBytes = 200;

}  // namespace

Status AnswerReader::Keep(std::string& into, std::string_view text) {
  if (!keeps_ || !kept_.ok()) return kept_;
  kept_bytes_ += static_cast<int64_t>(text.size());
  if (kept_bytes_ > limits::kMaxHeldAnswerBytes) {
    kept_ = Status(ErrorCode::kTooLarge, fmt::format("an answer of a conversation exceeds {} bytes",
                                                     limits::kMaxHeldAnswerBytes));
    return kept_;
  }
  into += text;
  return Status::Ok();
}

void AnswerReader::OnError(JsonValue error) {
  error_ = TextOf(error.Find("type"));
  if (error_.empty()) error_ = TextOf(error.Find("code"));
  if (error_.empty()) error_ = "error";
  error_ += fmt::format(": {}", TextOf(error.Find("message")));
  error_.resize(std::min(error_.size(), kShownBytes));
}

Result<bool> AnswerReader::OnEvent(const SseEvent& event) {
  if (ended_) return Status::Invalid("an event follows the end of the answer");
  if (api_ == Api::kChat && event.data == "[DONE]") {
    ended_ = true;
    return false;
  }
  const Result<Json> json = Json::Parse(event.data);
  if (!json || !json->root().is_object()) return Status::Invalid("an event is no JSON object");
  Result<bool> is_output = false;
  switch (api_) {
    case Api::kChat:
      is_output = OnChat(json->root());
      break;
    case Api::kMessages:
      is_output = OnMessages(json->root());
      break;
    case Api::kResponses:
      is_output = OnResponses(json->root());
      break;
  }
  if (is_output && !kept_.ok()) return kept_;
  return is_output;
}

Result<bool> AnswerReader::OnChat(JsonValue root) {
  if (const JsonValue error = root.Find("error")) {
    OnError(error);
    return false;
  }
  if (const JsonValue usage = root.Find("usage"); usage.is_object()) {
    usage_ = {.is_known = true,
              .n_prompt = NumberOf(usage.Find("prompt_tokens")),
              .n_cached = NumberOf(usage.Find("prompt_tokens_details").Find("cached_tokens")),
              .n_output = NumberOf(usage.Find("completion_tokens"))};
  }
  bool is_output = false;
  for (const JsonValue choice : root.Find("choices").elements()) {
    bool& is_finished = is_finished_[NumberOf(choice.Find("index"))];
    if (static_cast<int64_t>(is_finished_.size()) > limits::kMaxChoices) {
      return Status::Invalid(fmt::format("more than {} choices", limits::kMaxChoices));
    }
    SLUICE_TRY(const bool has_output, OnChatDelta(choice.Find("delta")));
    if (has_output && is_finished) return Status::Invalid("output follows a finish_reason");
    is_output |= has_output;
    is_finished |= choice.Find("finish_reason").is_string();
  }
  return is_output;
}

Result<bool> AnswerReader::OnChatDelta(JsonValue delta) {
  const std::string_view text = TextOf(delta.Find("content"));
  std::string_view reasoning = TextOf(delta.Find("reasoning_content"));
  if (reasoning.empty()) reasoning = TextOf(delta.Find("reasoning"));
  SLUICE_TRY(Keep(turn_.text, text));
  SLUICE_TRY(Keep(turn_.reasoning, reasoning));
  const bool has_text = !text.empty() || !reasoning.empty();
  n_text_events_ += has_text;
  const JsonValue calls = delta.Find("tool_calls");
  for (const JsonValue call : calls.elements()) {
    if (!keeps_) break;
    const auto index = NumberOf(call.Find("index"));
    if (index == std::ssize(turn_.calls) && index < limits::kMaxMessages) turn_.calls.push_back({});
    if (index < 0 || index >= std::ssize(turn_.calls)) {
      return Status::Invalid(fmt::format("a tool call has index {}", index));
    }
    AnswerTurn::Call& into = turn_.calls[static_cast<size_t>(index)];
    SLUICE_TRY(Keep(into.id, TextOf(call.Find("id"))));
    SLUICE_TRY(Keep(into.name, TextOf(call.Find("function").Find("name"))));
    SLUICE_TRY(Keep(into.arguments, TextOf(call.Find("function").Find("arguments"))));
  }
  return has_text || calls.size() > 0;
}

Result<bool> AnswerReader::OnMessages(JsonValue root) {
  const std::string_view type = TextOf(root.Find("type"));
  if (type == "error") {
    OnError(root.Find("error"));
  } else if (type == "message_start") {
    const JsonValue usage = root.Find("message").Find("usage");
    usage_.n_cached = NumberOf(usage.Find("cache_read_input_tokens"));
    usage_.n_prompt = NumberOf(usage.Find("input_tokens")) + usage_.n_cached +
                      NumberOf(usage.Find("cache_creation_input_tokens"));
  } else if (type == "message_delta") {
    const JsonValue usage = root.Find("usage");
    usage_.is_known = usage.Find("output_tokens").is_integer();
    usage_.n_output = NumberOf(usage.Find("output_tokens"));
  } else if (type == "content_block_start") {
    return OnMessagesBlock(root.Find("content_block"));
  } else if (type == "content_block_delta") {
    return OnMessagesDelta(root.Find("delta"));
  } else if (type == "message_stop") {
    ended_ = true;
  }
  return false;
}

bool AnswerReader::OnMessagesBlock(JsonValue block) {
  if (TextOf(block.Find("type")) != "tool_use") return false;
  if (keeps_ && std::ssize(turn_.calls) < limits::kMaxMessages) {
    turn_.calls.push_back({.id = std::string(TextOf(block.Find("id"))),
                           .name = std::string(TextOf(block.Find("name")))});
  }
  return true;
}

bool AnswerReader::OnMessagesDelta(JsonValue delta) {
  const std::string_view text = TextOf(delta.Find("text"));
  const std::string_view thinking = TextOf(delta.Find("thinking"));
  const std::string_view arguments = TextOf(delta.Find("partial_json"));
  // A limit that was met is told by OnEvent.
  (void)Keep(turn_.text, text);
  (void)Keep(turn_.reasoning, thinking);
  (void)Keep(turn_.signature, TextOf(delta.Find("signature")));
  if (!turn_.calls.empty()) (void)Keep(turn_.calls.back().arguments, arguments);
  n_text_events_ += !text.empty() || !thinking.empty();
  return !text.empty() || !thinking.empty() || !arguments.empty();
}

Result<bool> AnswerReader::OnResponses(JsonValue root) {
  const std::string_view type = TextOf(root.Find("type"));
  if (type == "error" || type == "response.failed") {
    const JsonValue error = root.Find("response").Find("error");
    OnError(error.exists() ? error : root);
    return false;
  }
  if (type == "response.completed" || type == "response.incomplete") {
    ended_ = true;
    const JsonValue usage = root.Find("response").Find("usage");
    usage_ = {.is_known = usage.is_object(),
              .n_prompt = NumberOf(usage.Find("input_tokens")),
              .n_cached = NumberOf(usage.Find("input_tokens_details").Find("cached_tokens")),
              .n_output = NumberOf(usage.Find("output_tokens"))};
    for (const JsonValue item : root.Find("response").Find("output").elements()) {
      if (!keeps_) break;
      SLUICE_TRY(Keep(turn_.items.emplace_back(), item.ToText()));
      if (TextOf(item.Find("type")) != "function_call") continue;
      turn_.calls.push_back({.id = std::string(TextOf(item.Find("call_id")))});
    }
    return false;
  }
  const std::string_view delta = TextOf(root.Find("delta"));
  if (delta.empty()) return false;  // also what fills a silence
  if (type == "response.output_text.delta" || type.starts_with("response.reasoning")) {
    ++n_text_events_;
    return true;
  }
  return type.ends_with(".delta");
}

Status AnswerReader::Check(int64_t n_max) const {
  if (!ended_) return Status::Invalid("the stream ended without its terminal event");
  const bool is_open = std::any_of(is_finished_.begin(), is_finished_.end(),
                                   [](const auto& choice) { return !choice.second; });
  if (is_open) return Status::Invalid("a choice has no finish_reason");
  const AnswerUsage& u = usage_;
  if (!u.is_known) return Status::Invalid("the stream has no usage");
  if (u.n_prompt < 1 || u.n_cached < 0 || u.n_cached > u.n_prompt) {
    return Status::Invalid(
        fmt::format("usage says {} prompt tokens, {} of them cached", u.n_prompt, u.n_cached));
  }
  if (n_max > 0 && u.n_output > n_max) {
    return Status::Invalid(
        fmt::format("usage says {} output tokens, {} were allowed", u.n_output, n_max));
  }
  // A token may bring text and a held rest, which comes behind the last token of its choice.
  const int64_t n_choices = std::max<int64_t>(1, std::ssize(is_finished_));
  if (u.n_output + n_choices < n_text_events_) {
    return Status::Invalid(fmt::format("usage says {} output tokens, {} events brought text",
                                       u.n_output, n_text_events_));
  }
  return Status::Ok();
}

}  // namespace sluice::load
