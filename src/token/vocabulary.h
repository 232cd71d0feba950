// Vocabulary: what a tokenizer.json says, checked and bounded: the tokens of a byte-level BPE, how
// they merge, and the added tokens (spec recipe.md §1 and §10).
//
// 1. Ids are 0 to size() - 1, each with a text of 1 to kMaxTokenBytes bytes.
// 2. Each of the 256 bytes is a token, and the result of a merge is the token of the joined bytes.
// 3. Control tokens are found by name, never by a literal id: a cut vocabulary has others.
// Immutable; any thread may read.

#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/json.h"
#include "base/result.h"
#include "token/token_texts.h"

namespace sluice::token {

// Its index in Vocabulary::merges is its rank: lower ones go first.
struct Merge {
  TokenId left, right, result;
};

struct AddedToken {
  TokenId id;
  // As the file has them. They do not tell control tokens from others: <think> is not special.
  bool is_special = false;
  bool is_normalized = false;
};

class Vocabulary {
 public:
  // kInvalidArgument or kUnsupported, naming the member of the file: for a file that is broken, or
  // that asks for something that would give other ids than this code.
  static Result<Vocabulary> Parse(std::string_view tokenizer_json);

  int32_t size() const { return texts_.size(); }
  // Bytes of the token, perhaps a part of a character; of an added token its spelling.
  std::string_view text(TokenId id) const { return texts_[id.value]; }
  bool is_added(TokenId id) const { return is_added_[static_cast<size_t>(id.value)] != 0; }
  // The added token that is spelled like this, "<｜User｜>".
  std::optional<TokenId> FindControl(std::string_view spelling) const;

  // For Bpe.
  const TokenTexts& texts() const { return texts_; }  // finds all but added tokens
  std::span<const TokenId, 256> byte_tokens() const { return byte_tokens_; }
  std::span<const Merge> merges() const { return merges_; }
  std::span<const AddedToken> added() const {
    return added_;
  }  // ascending by bytes of the spelling
  // Of hash tables: part of the file's SHA-256, so that nobody can choose texts for a known seed.
  uint64_t hash_seed() const { return hash_seed_; }

 private:
  Vocabulary() = default;
  Status ReadTexts(JsonValue vocabulary, JsonValue added_tokens);
  Status PlaceAdded(JsonValue added_tokens, std::span<std::string_view> texts);
  Status IndexTexts(std::span<const std::string_view> texts);
  Status ReadMerges(JsonValue merges);
  Status FindByteTokens();
  Status OrderAdded();

  TokenTexts texts_;
  std::vector<uint8_t> is_added_;  // [size()]
  std::vector<Merge> merges_;
  std::vector<AddedToken> added_;
  std::array<TokenId, 256> byte_tokens_;
  uint64_t hash_seed_ = 0;
};

}  // namespace sluice::token
