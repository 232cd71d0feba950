// TurnMemory: recent turns of the model as the tokens it sampled, for prompts whose history holds
// them. A client sends a turn back as text, and text has more than one tokenisation, arguments more
// than one spacing: rendered anew it would end the cached beginning of the conversation (design
// 0005 g to i).
//
// 1. A turn is found only by the API key that it answered, and only behind a prompt of the same
//    tokens as the one it was sampled behind. So the only control tokens that a client's text can
//    bring into a prompt are those that the model itself put there.
// 2. What is found looks to the client like what it sent, and thinks what it sent, if it sent that.
// 3. Bounded in bytes. When room is needed, the key that holds most loses the turn that it has used
//    least recently.
// 4. Whoever has the key and a turn's whole beginning can read what it thought, with /render;
// nobody
//    else can.
//
// Thread-safe: prep threads look up while the net thread keeps.

#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "base/mutex.h"
#include "codec/conversation.h"

namespace sluice::codec {

class TurnMemory {
 public:
  explicit TurnMemory(int64_t n_bytes_max) : n_bytes_max_(n_bytes_max) {}

  // The tokens of this turn from its beginning up to and including the token that ends it. Absent:
  // it was not kept, or with other reasoning, or it does not begin with `first`.
  std::optional<std::vector<TokenId>> Find(const TurnPlace& place,
                                           const Message& turn,
                                           std::optional<TokenId> first);

  // `ids` as Find returns them, not empty. One that looks the same at the same place is replaced.
  void Keep(const TurnPlace& place, const Message& turn, std::vector<TokenId> ids);

  // Room for turns that are being sampled, as much again as for those that are kept. False: there
  // is none. What was reserved is released.
  [[nodiscard]] bool Reserve(int64_t n_bytes);
  void Release(int64_t n_bytes);

  // Kept and reserved.
  int64_t n_bytes() const;

 private:
  struct EntryId {
    Digest prefix;
    Digest visible;
    friend auto operator<=>(const EntryId&, const EntryId&) = default;
  };
  struct Entry {
    EntryId id;
    Digest reasoning;
    std::vector<TokenId> ids;
    int64_t n_bytes() const;
  };
  struct Shelf {               // of one key
    std::list<Entry> entries;  // the least recently used first
    std::map<EntryId, std::list<Entry>::iterator> by_id;
    int64_t n_bytes = 0;
  };
  using Shelves = std::map<KeyId, Shelf>;

  void Drop(Shelf& shelf, std::list<Entry>::iterator entry) SLUICE_REQUIRES(mu_);
  void DropOldest() SLUICE_REQUIRES(mu_);

  const int64_t n_bytes_max_;
  mutable Mutex mu_;
  Shelves shelves_ SLUICE_GUARDED_BY(mu_);
  int64_t n_kept_bytes_ SLUICE_GUARDED_BY(mu_) = 0;
  int64_t n_reserved_bytes_ SLUICE_GUARDED_BY(mu_) = 0;
};

}  // namespace sluice::codec
