// Vocabulary: what a tokenizer.json or the metadata of a GGUF says, checked and bounded: the tokens
// of a byte-level BPE, how they merge, how text is cut before, and the added tokens (spec recipe.md
// §1 and §10).
//
// 1. Ids are 0 to size() - 1, each with a text of 1 to kMaxTokenBytes bytes.
// 2. The result of a merge is the token of the joined bytes. Each of the 256 bytes is a token, but
//    for SmolLM2, whose training text lacked 21 of them: those have the id -1.
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
#include "token/pretokenizer.h"
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

// A tokenizer as lists by id, as the metadata tokenizer.ggml of a GGUF has them.
struct TokenLists {
  std::string_view pre;                      // "smollm": how text is cut
  std::span<const std::string_view> tokens;  // bytes as printable characters, or a spelling
  std::span<const int64_t> token_types;      // 1 normal, 3 control, 4 user-defined, 5 unused
  std::span<const std::string_view> merges;  // "left right"
};

class Vocabulary {
 public:
  // kInvalidArgument or kUnsupported, naming the member of the file: for a file that is broken, or
  // that asks for something that would give other ids than this code.
  static Result<Vocabulary> Parse(std::string_view tokenizer_json);
  // Likewise. All but normal tokens are added ones.
  static Result<Vocabulary> FromLists(const TokenLists& lists);

  int32_t size() const { return texts_.size(); }
  // Bytes of the token, perhaps a part of a character; of an added token its spelling.
  std::string_view text(TokenId id) const { return texts_[id.value]; }
  bool is_added(TokenId id) const { return is_added_[static_cast<size_t>(id.value)] != 0; }
  // The added token that is spelled like this, "<｜User｜>".
  std::optional<TokenId> FindControl(std::string_view spelling) const;

  TextRules rules() const { return rules_; }

  // For Bpe.
  const TokenTexts& texts() const { return texts_; }  // finds all but added tokens
  std::span<const TokenId, 256> byte_tokens() const { return byte_tokens_; }
  bool lacks_bytes() const { return lacks_bytes_; }
  std::span<const Merge> merges() const { return merges_; }
  std::span<const AddedToken> added() const {
    return added_;
  }  // ascending by bytes of the spelling
  // Of hash tables: part of the file's SHA-256, so that nobody can choose texts for a known seed.
  uint64_t hash_seed() const { return hash_seed_; }

 private:
  // What the lists are called where they came from, for errors.
  struct Members {
    std::string_view tokens, added, merges;
  };
  explicit Vocabulary(const Members& members) : members_(members) {}
  Status ReadTexts(JsonValue vocabulary, JsonValue added_tokens);
  Status PlaceAdded(JsonValue added_tokens, std::span<std::string_view> texts);
  Status PlaceListed(const TokenLists& lists);
  Status IndexTexts(std::span<const std::string_view> texts);
  Status ReadMerges(JsonValue merges);
  Status AddMerge(std::string_view left, std::string_view right);
  Status BadMerge(std::string_view shown) const;
  Status CheckNoPairTwice() const;
  Status FindByteTokens();
  Status OrderAdded();

  Members members_;
  TextRules rules_ = TextRules::kDeepseekV3;

  TokenTexts texts_;
  std::vector<uint8_t> is_added_;  // [size()]
  std::vector<Merge> merges_;
  std::vector<AddedToken> added_;
  std::array<TokenId, 256> byte_tokens_;
  bool lacks_bytes_ = false;
  uint64_t hash_seed_ = 0;
};

}  // namespace sluice::token
