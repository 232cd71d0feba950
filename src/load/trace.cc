#include "load/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/json.h"
#include "base/json_writer.h"
#include "base/limits.h"

namespace sluice::load {
namespace {

constexpr double kMaxThinkMs = 86'400'000;

Result<std::string> ReadText(std::string_view key, JsonValue value) {
  if (!value.is_string()) return Status::Invalid(fmt::format("{} must be a string", key));
  return std::string(value.AsString());
}

Status ReadTurnMember(const JsonMember& member, TraceTurn& turn, int& n_texts) {
  const auto& [key, value] = member;
  if (key == "user" || key == "tool_result") {
    turn.is_tool_result = key == "tool_result";
    ++n_texts;
    SLUICE_TRY(turn.text, ReadText(key, value));
  } else if (key == "think_ms") {
    const double ms = value.is_number() ? value.AsDouble() : -1;
    if (ms < 0 || ms > kMaxThinkMs) {
      return Status::Invalid(fmt::format("think_ms must be 0 to {} milliseconds", kMaxThinkMs));
    }
    turn.think = {static_cast<int64_t>(ms * 1e6)};
  } else if (key == "max_tokens") {
    turn.n_max = value.is(JsonKind::kInt) ? value.AsInt64() : 0;
    if (turn.n_max < 1) return Status::Invalid("max_tokens must be an integer of at least 1");
  } else {
    return Status::Invalid(fmt::format(
        "unknown key {}; a turn has user or tool_result, think_ms, max_tokens", key.substr(0, 40)));
  }
  return Status::Ok();
}

Result<TraceTurn> ReadTurn(JsonValue value, bool is_first) {
  if (!value.is_object()) return Status::Invalid("a turn must be an object");
  TraceTurn turn;
  int n_texts = 0;
  for (const JsonMember& member : value.members()) {
    SLUICE_TRY(ReadTurnMember(member, turn, n_texts));
  }
  if (n_texts != 1) return Status::Invalid("a turn has one of user and tool_result");
  if (is_first && turn.is_tool_result) {
    return Status::Invalid("the first turn must be one of the user");
  }
  return turn;
}

Result<TraceConversation> ReadConversation(JsonValue root) {
  TraceConversation conversation;
  for (const auto& [key, value] : root.members()) {
    if (key == "system") {
      SLUICE_TRY(conversation.system, ReadText(key, value));
    } else if (key == "tools") {
      if (!value.is_array()) return Status::Invalid("tools must be a list");
      conversation.tools = value.ToText();
    } else if (key != "turns") {
      return Status::Invalid(fmt::format("unknown key {}; a conversation has system, tools, turns",
                                         key.substr(0, 40)));
    }
  }
  const JsonValue turns = root.Find("turns");
  if (!turns.is_array() || turns.size() == 0 || turns.size() > limits::kMaxTraceTurns) {
    return Status::Invalid(
        fmt::format("turns must be a list of 1 to {} turns", limits::kMaxTraceTurns));
  }
  for (const JsonValue turn : turns.elements()) {
    Result<TraceTurn> read = ReadTurn(turn, conversation.turns.empty());
    if (!read) {
      read.error().AddContext(fmt::format("turn {}", conversation.turns.size() + 1));
      return read.error();
    }
    conversation.turns.push_back(std::move(*read));
  }
  return conversation;
}

// The body with what a measured answer needs; the last of equal members counts, so ours come last.
FileRequest Streamed(JsonValue root, Api api) {
  FileRequest request;
  JsonWriter w(request.body);
  w.Object();
  for (const auto& [key, value] : root.members()) {
    if (key == "stream" || (key == "stream_options" && api == Api::kChat)) continue;
    w.Key(key).Raw(value.ToText());
    const bool is_limit =
        key == "max_tokens" || key == "max_completion_tokens" || key == "max_output_tokens";
    if (is_limit && value.is(JsonKind::kInt)) request.n_max = value.AsInt64();
  }
  w.Key("stream").Bool(true);
  if (api == Api::kChat) w.Key("stream_options").Raw(R"({"include_usage":true})");
  w.EndObject();
  // Its choices have the limit each.
  const JsonValue n = root.Find("n");
  if (n.is(JsonKind::kInt) && n.AsInt64() > 1) request.n_max = 0;
  return request;
}

// Calls read(root) for the object of each line.
template <typename Read>
Status ForEachLine(std::string_view text, Read read) {
  int64_t n = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (++n > limits::kMaxLoadLines) {
      return Status::Invalid(fmt::format("more than {} lines", limits::kMaxLoadLines));
    }
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.find_first_not_of(" \t") == std::string_view::npos) continue;
    Status status = Status::Invalid("must be a JSON object");
    const Result<Json> json = Json::Parse(line);
    if (!json) {
      status = json.error();
    } else if (json->root().is_object()) {
      status = read(json->root());
    }
    if (!status.ok()) return status.AddContext(fmt::format("line {}", n));
  }
  return Status::Ok();
}

}  // namespace

Result<std::vector<TraceConversation>> ParseTrace(std::string_view text) {
  std::vector<TraceConversation> conversations;
  SLUICE_TRY(ForEachLine(text, [&](JsonValue root) {
    Result<TraceConversation> conversation = ReadConversation(root);
    if (!conversation) return conversation.error();
    conversations.push_back(std::move(*conversation));
    return Status::Ok();
  }));
  if (conversations.empty()) return Status::Invalid("there is no conversation in it");
  return conversations;
}

Result<std::vector<FileRequest>> ParseRequests(std::string_view text, Api api) {
  std::vector<FileRequest> requests;
  SLUICE_TRY(ForEachLine(text, [&](JsonValue root) {
    requests.push_back(Streamed(root, api));
    return Status::Ok();
  }));
  if (requests.empty()) return Status::Invalid("there is no request in it");
  return requests;
}

}  // namespace sluice::load
