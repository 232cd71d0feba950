#include "codec/dialect/responses/history.h"

#include <fmt/format.h>

#include "base/json_writer.h"
#include "base/limits.h"
#include "codec/dialect/field.h"
#include "codec/dialect/responses/response_store.h"

namespace sluice::codec::responses {
namespace {

Status CountHistory(size_t n_bytes, ResolvedInput& resolved) {
  resolved.n_history_bytes += static_cast<int64_t>(n_bytes);
  if (resolved.n_history_bytes <= limits::kMaxHistoryBytes) return Status::Ok();
  return Named(Status(ErrorCode::kTooLarge,
                      fmt::format("what `input` and `previous_response_id` refer to exceeds {} "
                                  "bytes",
                                  limits::kMaxHistoryBytes)),
               "input");
}

Result<JsonValue> Parse(std::string_view text, ResolvedInput& resolved) {
  SLUICE_TRY(CountHistory(text.size(), resolved));
  Result<Json> json = Json::Parse(text);
  if (!json) return std::move(json.error().AddContext("what the request refers to"));
  return resolved.documents.emplace_back(std::move(*json)).root();
}

Status CheckItemCount(const ResolvedInput& resolved) {
  if (std::ssize(resolved.items) <= limits::kMaxMessages) return Status::Ok();
  return Status::InvalidField(
      "input",
      fmt::format("`input` and what it refers to have more than {} items", limits::kMaxMessages));
}

Status Unsupported(const char* field, const char* why) {
  return Named(Status(ErrorCode::kUnsupportedField, fmt::format("`{}` {}", field, why)), field);
}

}  // namespace

Status ResolvePrevious(const Body& body, const PrepareContext& context, ResolvedInput& resolved) {
  const bool rejects = context.profile.unknown_history_reject;
  if (rejects && body.background.value_or(false)) {
    return Unsupported("background", "must be false: responses are made while the client waits");
  }
  if (rejects && body.has_conversation) {
    return Unsupported("conversation",
                       "is not kept here; send its items in `input`, or `previous_response_id`");
  }
  if (!body.previous_response_id) return Status::Ok();
  const std::string_view id = *body.previous_response_id;
  std::optional<StoredResponse> previous;
  if (context.responses != nullptr) previous = context.responses->Find(context.key, id);
  if (!previous) {
    if (!rejects) return Status::Ok();
    return Named(Status(ErrorCode::kResponseNotFound,
                        fmt::format("Previous response with id '{}' not found.", Shorten(id))),
                 "previous_response_id");
  }
  SLUICE_TRY(JsonValue input, Parse(previous->input, resolved));
  for (JsonValue item : input.elements()) resolved.items.push_back({.value = item});
  for (const StoredItem& item : previous->output) {
    SLUICE_TRY(JsonValue value, Parse(item.text, resolved));
    resolved.items.push_back({.value = value});
  }
  resolved.previous = id;
  return CheckItemCount(resolved);
}

Status ResolveInput(const Body& body, const PrepareContext& context, ResolvedInput& resolved) {
  if (body.input.is_string()) return Status::Ok();
  int32_t index = -1;
  for (JsonValue value : body.input.elements()) {
    ++index;
    const bool is_reference = KindOf(value) == ItemKind::kReference && value.Find("id").is_string();
    if (!is_reference) {
      resolved.items.push_back({.value = value, .index = index});
      continue;
    }
    const std::string_view id = value.Find("id").AsString();
    std::optional<std::string> item;
    if (context.responses != nullptr) item = context.responses->FindItem(context.key, id);
    if (item) {
      SLUICE_TRY(JsonValue stored, Parse(*item, resolved));
      resolved.items.push_back({.value = stored, .index = index});
    } else if (context.profile.unknown_history_reject) {
      return Named(Status(ErrorCode::kItemNotFound,
                          fmt::format("Item with id '{}' not found: `input[{}]` refers to an "
                                      "output item that is not kept, or no longer.",
                                      Shorten(id), index)),
                   "input");
    } else {
      resolved.items.push_back({.value = value, .index = index});  // it means nothing
    }
  }
  return CheckItemCount(resolved);
}

std::string KeptInput(const Body& body, const ResolvedInput& resolved) {
  std::string text = "[";
  for (const InputItem& item : resolved.items) {
    if (text.size() > 1) text += ',';
    text += item.value.ToText();
    if (std::ssize(text) > limits::kMaxStoredResponseBytes) return "";
  }
  if (body.input.is_string()) {
    if (text.size() > 1) text += ',';
    JsonWriter w(text);
    w.Object().Key("type").String("message").Key("role").String("user").Key("content").Array();
    w.Object().Key("type").String("input_text");
    w.Key("text").String(body.input.AsString());
    w.EndObject().EndArray().EndObject();
    if (std::ssize(text) > limits::kMaxStoredResponseBytes) return "";
  }
  return text + "]";
}

}  // namespace sluice::codec::responses
