#include "serve/stored_responses.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <vector>

#include "base/json.h"
#include "base/json_writer.h"
#include "codec/dialect/responses/response_store.h"

namespace sluice::serve {
namespace {

using codec::responses::StoredResponse;

// Items of one page (the OpenAI service's numbers).
constexpr int32_t kPageItems = 20;
constexpr int32_t kMaxPageItems = 100;

// The value of `name` in a query, as it was sent; absent if it is not there.
std::optional<std::string_view> ValueOf(std::string_view query, std::string_view name) {
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(pair.size() + 1, query.size()));
    const size_t equals = std::min(pair.find('='), pair.size());
    if (pair.substr(0, equals) == name) return pair.substr(std::min(equals + 1, pair.size()));
  }
  return std::nullopt;
}

Status NotFound(std::string_view id) {
  // As short as ids of this server are; a longer one is nobody's.
  return Status(ErrorCode::kNotFound,
                fmt::format("Response with id '{}' not found.", id.substr(0, 64)));
}

struct Page {
  int32_t n_max = kPageItems;
  bool is_descending = true;
  std::string_view after;  // id of the item before the page; empty: from the beginning
};

Result<Page> ReadPage(std::string_view query) {
  Page page;
  if (std::optional<std::string_view> limit = ValueOf(query, "limit")) {
    const char* end = limit->data() + limit->size();
    auto [parsed, error] = std::from_chars(limit->data(), end, page.n_max);
    if (error != std::errc() || parsed != end || page.n_max < 1 || page.n_max > kMaxPageItems) {
      return Status::InvalidField(
          "limit", fmt::format("`limit` must be a number from 1 to {}", kMaxPageItems));
    }
  }
  if (std::optional<std::string_view> order = ValueOf(query, "order")) {
    if (*order != "asc" && *order != "desc")
      return Status::InvalidField("order", "`order` must be asc or desc");
    page.is_descending = *order == "desc";
  }
  page.after = ValueOf(query, "after").value_or("");
  return page;
}

// Items that came without an id get one that says where they stand.
std::string IdOf(const JsonValue& item, std::string_view response_id, size_t index) {
  JsonValue id = item.Find("id");
  if (id.is_string() && !id.AsString().empty()) return std::string(id.AsString());
  return fmt::format("in_{}_{}", response_id, index);
}

void WriteItem(const JsonValue& item, std::string_view id, JsonWriter& w) {
  w.Object().Key("id").String(id);
  for (JsonMember member : item.members()) {
    if (member.key != "id") w.Key(member.key).Raw(member.value.ToText());
  }
  w.EndObject();
}

Result<std::string> InputItems(const StoredResponse& stored,
                               std::string_view response_id,
                               const Page& page) {
  SLUICE_TRY(Json json, Json::Parse(stored.input));
  std::vector<std::pair<std::string, JsonValue>> items;
  for (JsonValue item : json.root().elements())
    items.emplace_back(IdOf(item, response_id, items.size()), item);
  if (page.is_descending) std::ranges::reverse(items);
  size_t first = 0;
  if (!page.after.empty()) {
    auto found = std::ranges::find(items, page.after, &std::pair<std::string, JsonValue>::first);
    if (found == items.end())
      return Status::InvalidField("after", "`after` must be the id of an item of this response");
    first = static_cast<size_t>(found - items.begin()) + 1;
  }
  const size_t end = std::min(items.size(), first + static_cast<size_t>(page.n_max));
  std::string body;
  JsonWriter w(body);
  w.Object().Key("object").String("list").Key("data").Array();
  for (size_t i = first; i < end; ++i) WriteItem(items[i].second, items[i].first, w);
  w.EndArray();
  w.Key("first_id");
  first < end ? w.String(items[first].first) : w.Null();
  w.Key("last_id");
  first < end ? w.String(items[end - 1].first) : w.Null();
  w.Key("has_more").Bool(end < items.size());
  w.EndObject();
  return body;
}

Result<std::string> BodyOf(Net& net, const Operation& operation) {
  const std::string_view id = operation.match.rest;
  const KeyId key = operation.account->key;
  const Handler handler = operation.match.route->handler;
  if (handler == Handler::kDeleteResponse) {
    if (!net.responses.Forget(key, id)) return NotFound(id);
    std::string body;
    JsonWriter w(body);
    w.Object().Key("id").String(id).Key("object").String("response");
    w.Key("deleted").Bool(true).EndObject();
    return body;
  }
  std::optional<StoredResponse> stored = net.responses.Find(key, id);
  if (!stored) return NotFound(id);
  if (handler == Handler::kCancelResponse)
    return Status::Invalid("Cannot cancel a synchronous response.");
  if (handler == Handler::kResponseInput) {
    SLUICE_TRY(Page page, ReadPage(operation.head.query));
    return InputItems(*stored, id, page);
  }
  if (ValueOf(operation.head.query, "stream") == "true") {
    return Status::InvalidField(
        "stream", "`stream` must be false: only responses made in the background can be streamed");
  }
  return stored->ToText();
}

}  // namespace

Response HandleStoredResponse(Net& net, const Operation& operation) {
  Result<std::string> body = BodyOf(net, operation);
  if (!body) return ErrorResponse(body.error(), codec::Dialects().front(), operation.request_id);
  Response response;
  response.body = std::move(*body);
  return response;
}

}  // namespace sluice::serve
