#include "codec/dialect/responses/response_store.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"
#include "base/limits.h"

namespace sluice::codec::responses {
namespace {

// What a record costs besides its texts: nodes, ends of strings, iterators.
constexpr int64_t kRecordBytes = 512;
constexpr int64_t kItemBytes = 96;

// The response that an item's id names: `msg_resp_17_0` is item 0 of `resp_17`.
std::string_view ResponseOf(std::string_view item_id) {
  const size_t kind_end = item_id.find('_');
  const size_t index = item_id.rfind('_');
  if (kind_end == std::string_view::npos || index == kind_end) return {};
  return item_id.substr(kind_end + 1, index - kind_end - 1);
}

}  // namespace

int64_t StoredResponse::n_bytes() const {
  size_t n = head.size() + input.size();
  for (const StoredItem& item : output) n += item.text.size() + item.id.size() + kItemBytes;
  return static_cast<int64_t>(n) + kRecordBytes;
}

std::string StoredResponse::ToText() const {
  std::string text = head + ",\"output\":[";
  for (size_t i = 0; i < output.size(); ++i) {
    if (i > 0) text += ',';
    text += output[i].text;
  }
  return text + "]}";
}

bool ResponseStore::Takes(int64_t n_bytes) const {
  return limits_.n_responses > 0 &&
         n_bytes <= std::min(limits_.n_bytes, limits::kMaxStoredResponseBytes);
}

void ResponseStore::Keep(KeyId key, std::string_view id, StoredResponse response) {
  const int64_t n_bytes = response.n_bytes();
  if (!Takes(n_bytes)) return;
  MutexLock lock(mu_);
  while (load_.n_bytes + n_bytes > limits_.n_bytes || load_.n_responses >= limits_.n_responses)
    DropOldest();
  Shelf& shelf = shelves_[key];
  if (auto same = shelf.by_id.find(id); same != shelf.by_id.end()) Drop(shelf, same->second);
  shelf.records.push_back(
      {.id = std::string(id), .response = std::move(response), .kept_at = now_});
  const auto record = std::prev(shelf.records.end());
  shelf.by_id.emplace(record->id, record);
  shelf.n_bytes += n_bytes;
  load_.n_bytes += n_bytes;
  ++load_.n_responses;
}

void ResponseStore::Drop(Shelf& shelf, std::list<Record>::iterator record) {
  const int64_t n_bytes = record->response.n_bytes();
  shelf.n_bytes -= n_bytes;
  load_.n_bytes -= n_bytes;
  --load_.n_responses;
  shelf.by_id.erase(record->id);
  shelf.records.erase(record);
}

// A busy key makes room at its own cost.
void ResponseStore::DropOldest() {
  auto largest = std::ranges::max_element(
      shelves_, {}, [](const Shelves::value_type& shelf) { return shelf.second.n_bytes; });
  SLUICE_CHECK(largest != shelves_.end() && !largest->second.records.empty());
  Drop(largest->second, largest->second.records.begin());
  if (largest->second.records.empty()) shelves_.erase(largest);
}

const ResponseStore::Record* ResponseStore::FindRecord(KeyId key, std::string_view id) const {
  const auto shelf = shelves_.find(key);
  if (shelf == shelves_.end()) return nullptr;
  const auto found = shelf->second.by_id.find(id);
  return found == shelf->second.by_id.end() ? nullptr : &*found->second;
}

std::optional<StoredResponse> ResponseStore::Find(KeyId key, std::string_view id) const {
  MutexLock lock(mu_);
  const Record* record = FindRecord(key, id);
  if (record == nullptr) return std::nullopt;
  return record->response;
}

std::optional<std::string> ResponseStore::FindItem(KeyId key, std::string_view item_id) const {
  MutexLock lock(mu_);
  const Record* record = FindRecord(key, ResponseOf(item_id));
  if (record == nullptr) return std::nullopt;
  const std::vector<StoredItem>& output = record->response.output;
  const auto item = std::ranges::find(output, item_id, &StoredItem::id);
  if (item == output.end()) return std::nullopt;
  return item->text;
}

bool ResponseStore::Forget(KeyId key, std::string_view id) {
  MutexLock lock(mu_);
  const auto shelf = shelves_.find(key);
  if (shelf == shelves_.end()) return false;
  const auto found = shelf->second.by_id.find(id);
  if (found == shelf->second.by_id.end()) return false;
  Drop(shelf->second, found->second);
  if (shelf->second.records.empty()) shelves_.erase(shelf);
  return true;
}

void ResponseStore::Expire(Time now) {
  MutexLock lock(mu_);
  now_ = now;
  for (auto it = shelves_.begin(); it != shelves_.end();) {
    Shelf& shelf = it->second;
    while (!shelf.records.empty() && now - shelf.records.front().kept_at >= limits_.age)
      Drop(shelf, shelf.records.begin());
    it = shelf.records.empty() ? shelves_.erase(it) : std::next(it);
  }
}

ResponseStore::Load ResponseStore::load() const {
  MutexLock lock(mu_);
  return load_;
}

}  // namespace sluice::codec::responses
