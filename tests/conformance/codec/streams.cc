#include "conformance/codec/streams.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace sluice::conformance {
namespace {

constexpr std::array<std::string_view, 9> kDropped = {
    "id",    "created",         "created_at", "completed_at",      "item_id",
    "model", "sequence_number", "object",     "system_fingerprint"};

// "call_00_ET_*" for an id of a call, empty for anything else.
std::string CallPattern(const std::string& id) {
  if (!id.starts_with("call_") || id.size() < 8) return "";
  std::string pattern = id.substr(0, 8);
  std::string rest = id.substr(8);
  if (rest.starts_with("ET_")) {
    pattern += "ET_";
    rest = rest.substr(3);
  }
  const bool is_random = rest.size() == 24 &&
                         std::ranges::all_of(rest, [](unsigned char c) { return std::isalnum(c); });
  return is_random ? pattern + "*" : "";
}

Json Strip(const Json& value) {
  if (value.is_array()) {
    Json list = Json::array();
    for (const Json& element : value) list.push_back(Strip(element));
    return list;
  }
  if (!value.is_object()) return value;
  Json object = Json::object();
  for (const auto& [key, member] : value.items()) {
    const bool is_id = (key == "id" || key == "call_id") && member.is_string();
    if (is_id && !CallPattern(member).empty()) {
      object[key] = CallPattern(member);
    } else if (std::ranges::find(kDropped, key) != kDropped.end()) {
      continue;
    } else if (key == "signature" && member.is_string()) {
      object[key] = member.get<std::string>().empty() ? "" : "SIGNATURE";
    } else if (key == "encrypted_content") {
      object[key] = member.is_null() ? Json() : Json("OPAQUE");
    } else {
      object[key] = Strip(member);
    }
  }
  return object;
}

Json ChatEvent(const Json& chunk) {
  if (chunk["choices"].empty()) return {{"usage", chunk["usage"]}};
  const Json& choice = chunk["choices"][0];
  Json event = {{"delta", choice["delta"]}};
  if (choice.contains("logprobs") && !choice["logprobs"].is_null()) {
    event["logprobs"] = choice["logprobs"];
  }
  if (!choice["finish_reason"].is_null()) event["finish_reason"] = choice["finish_reason"];
  if (chunk.contains("usage")) event["usage"] = chunk["usage"];
  return event;
}

Json ResponsesEvent(Json event) {
  if (!event.contains("response")) return event;
  Json kept = Json::object();
  for (const char* key : {"status", "incomplete_details", "usage"}) {
    const Json& response = event["response"];
    if (response.contains(key) && !response[key].is_null()) kept[key] = response[key];
  }
  event["response"] = kept;
  return event;
}

std::vector<std::string> KeysWithValues(const Json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) {
    if (!value.is_null()) keys.push_back(key);
  }
  return keys;
}

bool IsDeltaOnly(const Json& event) {
  return std::ranges::all_of(event.items(), [](const auto& item) {
    return item.key() == "delta" || item.key() == "usage";
  });
}

bool JoinChat(Json& last, const Json& event) {
  if (!last.contains("delta") || !event.contains("delta")) return false;
  Json& a = last["delta"];
  const Json& b = event["delta"];
  if (!IsDeltaOnly(last) || !IsDeltaOnly(event) || a.contains("role") || b.contains("role")) {
    return false;
  }
  if (a.contains("tool_calls") && b.contains("tool_calls")) {
    Json& x = a["tool_calls"][0];
    const Json& y = b["tool_calls"][0];
    if (x.contains("id") || y.contains("id") || x["index"] != y["index"]) return false;
    x["function"]["arguments"] = x["function"]["arguments"].get<std::string>() +
                                 y["function"]["arguments"].get<std::string>();
    return true;
  }
  if (a.size() != b.size() || KeysWithValues(a) != KeysWithValues(b)) return false;
  for (const std::string& key : KeysWithValues(b)) {
    if (!a[key].is_string() || !b[key].is_string()) return false;
    a[key] = a[key].get<std::string>() + b[key].get<std::string>();
  }
  return true;
}

bool JoinMessages(Json& last, const Json& event) {
  if (last["type"] != "content_block_delta" || event["type"] != "content_block_delta") return false;
  Json& a = last["delta"];
  const Json& b = event["delta"];
  if (a["type"] != b["type"] || last["index"] != event["index"]) return false;
  for (const char* key : {"text", "thinking", "partial_json"}) {
    if (b.contains(key)) a[key] = a[key].get<std::string>() + b[key].get<std::string>();
  }
  return true;
}

bool JoinResponses(Json& last, const Json& event) {
  const std::string type = event.value("type", "");
  if (last["type"] != event["type"] || !type.ends_with(".delta")) return false;
  if (event.contains("logprobs") && !event["logprobs"].empty()) return false;
  if (last["output_index"] != event["output_index"]) return false;
  last["delta"] = last["delta"].get<std::string>() + event["delta"].get<std::string>();
  return true;
}

// The payloads of the frames.
std::vector<std::string> Frames(const std::string& stream) {
  std::vector<std::string> payloads;
  for (size_t at = 0; at < stream.size();) {
    const size_t end = std::min(stream.find("\n\n", at), stream.size());
    const std::string frame = stream.substr(at, end - at);
    at = end + 2;
    const size_t data = frame.starts_with("data: ") ? 0 : frame.find("\ndata: ");
    if (data != std::string::npos) payloads.push_back(frame.substr(frame.find("data: ", data) + 6));
  }
  return payloads;
}

}  // namespace

Json EventsOf(const std::string& api, const std::string& stream) {
  Json events = Json::array();
  for (const std::string& payload : Frames(stream)) {
    if (payload == "[DONE]") continue;
    const Json parsed = Json::parse(payload, nullptr, false);
    if (parsed.is_discarded()) {
      events.push_back({{"broken", payload}});
      continue;
    }
    Json event = Strip(parsed);
    if (api == "chat") event = ChatEvent(event);
    if (api == "responses") event = ResponsesEvent(event);
    bool joined = false;
    if (!events.empty()) {
      Json& last = events.back();
      joined = api == "chat"       ? JoinChat(last, event)
               : api == "messages" ? JoinMessages(last, event)
                                   : JoinResponses(last, event);
    }
    if (!joined) events.push_back(event);
  }
  return events;
}

Json ResponseOf(const std::string& api, const std::string& body) {
  const Json parsed = Json::parse(body, nullptr, false);
  if (parsed.is_discarded()) return {{"broken", body}};
  const Json response = Strip(parsed);
  if (api == "chat") {
    const Json& choice = response["choices"][0];
    Json kept = {{"message", choice["message"]},
                 {"finish_reason", choice["finish_reason"]},
                 {"usage", response["usage"]}};
    if (choice.contains("logprobs") && !choice["logprobs"].is_null()) {
      kept["logprobs"] = choice["logprobs"];
    }
    return kept;
  }
  if (api == "messages") return response;
  Json kept = Json::object();
  for (const char* key : {"status", "incomplete_details", "usage", "output"}) {
    kept[key] = response.value(key, Json());
  }
  return kept;
}

Json ObjectOf(const std::string& body) {
  Json object = Json::parse(body, nullptr, false);
  if (object.is_discarded()) return {{"broken", body}};
  for (const char* key : {"id", "created_at", "completed_at", "output"}) object.erase(key);
  if (object.contains("model")) object["model"] = "MODEL";  // as the cases write any name
  return object;
}

namespace {

void Append(Json& neutral, const char* key, const Json& text) {
  neutral[key] = neutral.value(key, std::string()) + text.get<std::string>();
}

Json NeutralOfChat(const Json& response) {
  const Json& message = response["message"];
  Json neutral = {{"content", message.value("content", Json(""))}, {"calls", Json::array()}};
  neutral["reasoning"] = message.value("reasoning_content", "");
  for (const Json& call : message.value("tool_calls", Json::array())) {
    neutral["calls"].push_back({call["function"]["name"], call["function"]["arguments"]});
  }
  neutral["finish"] = response["finish_reason"];
  return neutral;
}

Json NeutralOfMessages(const Json& response) {
  Json neutral = {{"content", ""}, {"reasoning", ""}, {"calls", Json::array()}};
  for (const Json& block : response["content"]) {
    if (block["type"] == "text") Append(neutral, "content", block["text"]);
    if (block["type"] == "thinking") Append(neutral, "reasoning", block["thinking"]);
    if (block["type"] == "tool_use") neutral["calls"].push_back({block["name"], block["input"]});
  }
  const std::string reason = response["stop_reason"];
  neutral["finish"] = reason == "tool_use"     ? "tool_calls"
                      : reason == "max_tokens" ? "length"
                      : reason == "refusal"    ? "content_filter"
                                               : "stop";
  return neutral;
}

Json NeutralOfResponses(const Json& response) {
  Json neutral = {{"content", ""}, {"reasoning", ""}, {"calls", Json::array()}};
  for (const Json& item : response["output"]) {
    for (const Json& part : item.value("content", Json::array())) {
      Append(neutral, item["type"] == "reasoning" ? "reasoning" : "content", part["text"]);
    }
    if (item["type"] == "function_call") {
      neutral["calls"].push_back({item["name"], item["arguments"]});
    }
  }
  neutral["finish"] = response["status"] == "incomplete" ? "length"
                      : neutral["calls"].empty()         ? "stop"
                                                         : "tool_calls";
  return neutral;
}

}  // namespace

Json NeutralOf(const std::string& api, const Json& response) {
  if (response.contains("broken")) return response;
  if (api == "chat") return NeutralOfChat(response);
  return api == "messages" ? NeutralOfMessages(response) : NeutralOfResponses(response);
}

}  // namespace sluice::conformance
