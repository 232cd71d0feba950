// ResponseStore: recent responses with the items they answered, for requests that refer to them by
// id (spec recipe.md §6, history by reference). Bounded in bytes, number and age; each key sees
// only its own, and when room is needed the key that holds most loses its oldest.
//
// Thread-safe: requests are decoded on prep threads while the net thread keeps and serves
// responses. Has no clock: its owner tells the time with Expire, for the first time before anything
// is kept.

#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/mutex.h"
#include "base/time.h"

namespace sluice::codec::responses {

struct StoredItem {
  std::string id;
  std::string text;  // JSON object
};

struct StoredResponse {
  std::string head;                // the response object up to its last member, `output`, open
  std::vector<StoredItem> output;  // which the head is closed with
  std::string input;               // JSON array: the items it answers, its history included

  int64_t n_bytes() const;
  // The whole response object.
  std::string ToText() const;
};

class ResponseStore {
 public:
  struct Limits {
    int64_t n_bytes;  // 0: nothing is kept
    int64_t n_responses;
    Duration age;
  };
  explicit ResponseStore(const Limits& limits) : limits_(limits) {}

  // Whether a response of that size would be kept.
  bool Takes(int64_t n_bytes) const;

  // Older ones make room. Only what Takes() allows is kept.
  void Keep(KeyId key, std::string_view id, StoredResponse response);
  // Copies; absent: unknown, expired or another key's.
  std::optional<StoredResponse> Find(KeyId key, std::string_view id) const;
  std::optional<std::string> FindItem(KeyId key, std::string_view item_id) const;
  // False: it was not there.
  bool Forget(KeyId key, std::string_view id);

  // Tells the time, which never goes back; what is too old goes.
  void Expire(Time now);

  struct Load {
    int64_t n_bytes;
    int64_t n_responses;
  };
  Load load() const;

 private:
  struct Record {
    std::string id;
    StoredResponse response;
    Time kept_at;
  };
  struct Shelf {                // of one key
    std::list<Record> records;  // oldest first
    std::map<std::string_view, std::list<Record>::iterator, std::less<>> by_id;
    int64_t n_bytes = 0;
  };
  using Shelves = std::map<KeyId, Shelf>;

  const Record* FindRecord(KeyId key, std::string_view id) const SLUICE_REQUIRES(mu_);
  void Drop(Shelf& shelf, std::list<Record>::iterator record) SLUICE_REQUIRES(mu_);
  void DropOldest() SLUICE_REQUIRES(mu_);

  const Limits limits_;
  mutable Mutex mu_;
  Shelves shelves_ SLUICE_GUARDED_BY(mu_);
  Load load_ SLUICE_GUARDED_BY(mu_) = {.n_bytes = 0, .n_responses = 0};
  Time now_ SLUICE_GUARDED_BY(mu_);
};

}  // namespace sluice::codec::responses
