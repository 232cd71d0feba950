#include "token/vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "base/limits.h"
#include "base/sha256.h"
#include "token/pretokenizer.h"
#include "token/untrusted_json_impl.h"

namespace sluice::token {
namespace {

constexpr int64_t kNormalToken = 1, kControlToken = 3;  // of a GGUF

uint64_t SeedOf(std::string_view text) {
  const std::array<std::byte, 32> hash = Sha256(std::as_bytes(std::span(text)));
  uint64_t seed;
  std::memcpy(&seed, hash.data(), sizeof(seed));
  return seed;
}

// Byte-level vocabularies write a byte as a printable character: itself, or 256 and up in order for
// those that are none. By code point; -1: this character stands for no byte.
using ByteOfCharacter = std::array<int16_t, 512>;

ByteOfCharacter MakeByteOfCharacter() {
  ByteOfCharacter bytes;
  bytes.fill(-1);
  size_t next = 256;
  for (int16_t byte = 0; byte < 256; ++byte) {
    const bool is_itself = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) ||
                           (byte >= 0xAE && byte <= 0xFF);
    bytes[is_itself ? static_cast<size_t>(byte) : next++] = byte;
  }
  return bytes;
}

// The bytes that a text of the vocabulary stands for; nothing if one of its characters stands for
// none. They are all below U+0200: one or two bytes of UTF-8.
std::optional<std::string> BytesOf(std::string_view characters) {
  static const ByteOfCharacter kBytes = MakeByteOfCharacter();
  std::string bytes;
  for (size_t i = 0; i < characters.size(); ++i) {
    size_t point = static_cast<unsigned char>(characters[i]);
    if (point >= 0x80) {
      if (point < 0xC0 || point >= 0xC8 || i + 1 == characters.size()) return std::nullopt;
      point = (point & 0x1F) << 6 | (static_cast<unsigned char>(characters[++i]) & 0x3F);
    }
    if (kBytes[point] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(kBytes[point]));
  }
  return bytes;
}

Status Unsupported(std::string_view member, JsonValue value, std::string_view wanted) {
  return Status(ErrorCode::kUnsupported,
                fmt::format("{} is {}; only {} is built in", member, Shown(value), wanted));
}

// Settings under which the merges would be applied otherwise.
Status CheckModel(JsonValue model) {
  if (!IsText(model.Find("type"), "BPE")) {
    return Unsupported("model.type", model.Find("type"), "BPE");
  }
  for (const char* name :
       {"dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix"}) {
    const JsonValue value = model.Find(name);
    if (!IsAbsent(value) && !IsText(value, "")) {
      return Unsupported(fmt::format("model.{}", name), value, "null");
    }
  }
  // A piece that is a token is merged step by step all the same.
  for (const char* name : {"byte_fallback", "ignore_merges"}) {
    const JsonValue value = model.Find(name);
    if (!IsAbsent(value) && !IsFalse(value)) {
      return Unsupported(fmt::format("model.{}", name), value, "false");
    }
  }
  return Status::Ok();
}

// What stands around the model. How a prompt is cut or padded is not the tokenizer's business here,
// so `truncation` and `padding` are not looked at.
Status CheckSteps(JsonValue root, TextRules rules) {
  const JsonValue normalizer = root.Find("normalizer"), kind = normalizer.Find("type");
  const bool is_empty_sequence = IsText(kind, "Sequence") &&
                                 normalizer.Find("normalizers").is_array() &&
                                 normalizer.Find("normalizers").size() == 0;
  const bool is_known =
      rules == TextRules::kQwen2 ? IsText(kind, "NFC") : IsAbsent(normalizer) || is_empty_sequence;
  if (!is_known) {
    return Status(ErrorCode::kUnsupported,
                  fmt::format("normalizer has the type {}; only {} is built in", Shown(kind),
                              rules == TextRules::kQwen2 ? "NFC" : "one that does nothing"));
  }
  // Others put tokens around the text.
  const JsonValue post_processor = root.Find("post_processor");
  if (!IsAbsent(post_processor) && !IsText(post_processor.Find("type"), "ByteLevel")) {
    return Unsupported("post_processor.type", post_processor.Find("type"), "ByteLevel");
  }
  const JsonValue decoder = root.Find("decoder").Find("type");
  if (!IsText(decoder, "ByteLevel")) return Unsupported("decoder.type", decoder, "ByteLevel");
  return Status::Ok();
}

// Whether it is matched wherever it stands, which is all that Bpe knows.
Status CheckAddedFlags(JsonValue added, std::string_view spelling) {
  for (const char* name : {"single_word", "lstrip", "rstrip"}) {
    const JsonValue value = added.Find(name);
    if (IsAbsent(value) || IsFalse(value)) continue;
    return Unsupported(fmt::format("added_tokens: {} of {}", name, Quoted(spelling)), value,
                       "false");
  }
  return Status::Ok();
}

bool IsTrue(JsonValue value) { return value.is_bool() && value.AsBool(); }

bool IsTokenText(std::string_view text) {
  return !text.empty() && static_cast<int64_t>(text.size()) <= limits::kMaxTokenBytes;
}

// An id from 0 on, below n; -1 for anything else.
int64_t IdIn(JsonValue id, size_t n) {
  const bool is_id =
      id.is(JsonKind::kInt) && id.AsInt64() >= 0 && id.AsInt64() < static_cast<int64_t>(n);
  return is_id ? id.AsInt64() : -1;
}

Status BadToken(std::string_view member, std::string_view text, JsonValue id) {
  return Status::Invalid(
      fmt::format("{}: {} has id {}; a token has 1 to {} bytes, and ids go from 0 without a gap",
                  member, Quoted(text), Shown(id), limits::kMaxTokenBytes));
}

Status OneIdTwice(std::string_view member, std::string_view a, std::string_view b, int64_t id) {
  return Status::Invalid(
      fmt::format("{}: {} and {} have one id, {}", member, Quoted(a), Quoted(b), id));
}

// Sets the texts of the vocabulary by id.
Status PlaceTokens(JsonValue vocabulary, std::span<std::string_view> texts) {
  for (const JsonMember member : vocabulary.members()) {
    const int64_t id = IdIn(member.value, texts.size());
    if (id < 0 || !IsTokenText(member.key)) {
      return BadToken("model.vocab", member.key, member.value);
    }
    std::string_view& text = texts[static_cast<size_t>(id)];
    if (!text.empty()) return OneIdTwice("model.vocab", text, member.key, id);
    text = member.key;
  }
  return Status::Ok();
}

using Sides = std::pair<std::string_view, std::string_view>;

// Of "left right".
std::optional<Sides> SidesOf(std::string_view text) {
  const size_t space = text.find(' ');
  if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos) {
    return std::nullopt;
  }
  return Sides(text.substr(0, space), text.substr(space + 1));
}

// The same, or a list of the two.
std::optional<Sides> SidesOf(JsonValue merge) {
  if (merge.is_string()) return SidesOf(merge.AsString());
  std::vector<std::string_view> sides;
  for (const JsonValue side : merge.elements()) {
    if (!side.is_string() || sides.size() == 2) return std::nullopt;
    sides.push_back(side.AsString());
  }
  if (sides.size() != 2) return std::nullopt;
  return Sides(sides[0], sides[1]);
}

}  // namespace

Result<Vocabulary> Vocabulary::Parse(std::string_view tokenizer_json) {
  SLUICE_TRY(const Json json,
             Json::Parse(tokenizer_json, {.text_bytes = limits::kMaxTokenMapBytes, .depth = 32}));
  const JsonValue root = json.root(), model = root.Find("model");
  SLUICE_TRY(CheckModel(model));
  Vocabulary vocabulary(
      {.tokens = "model.vocab", .added = "added_tokens", .merges = "model.merges"});
  SLUICE_TRY(vocabulary.rules_, FindTextRules(root.Find("pre_tokenizer")));
  SLUICE_TRY(CheckSteps(root, vocabulary.rules_));
  vocabulary.hash_seed_ = SeedOf(tokenizer_json);
  SLUICE_TRY(vocabulary.ReadTexts(model.Find("vocab"), root.Find("added_tokens")));
  SLUICE_TRY(vocabulary.FindByteTokens());
  SLUICE_TRY(vocabulary.ReadMerges(model.Find("merges")));
  SLUICE_TRY(vocabulary.OrderAdded());
  return vocabulary;
}

Result<Vocabulary> Vocabulary::FromLists(const TokenLists& lists) {
  Vocabulary vocabulary({.tokens = "tokenizer.ggml.tokens",
                         .added = "tokenizer.ggml.tokens",
                         .merges = "tokenizer.ggml.merges"});
  SLUICE_TRY(vocabulary.rules_, TextRulesNamed(lists.pre));
  std::string joined;
  for (const std::string_view text : lists.tokens) joined += text;
  for (const std::string_view text : lists.merges) joined += text;
  vocabulary.hash_seed_ = SeedOf(joined);
  SLUICE_TRY(vocabulary.PlaceListed(lists));
  SLUICE_TRY(vocabulary.FindByteTokens());
  if (std::ssize(lists.merges) > limits::kMaxVocabularyMerges) {
    return Status::Invalid(fmt::format("tokenizer.ggml.merges: {} merges, at most {} are allowed",
                                       lists.merges.size(), limits::kMaxVocabularyMerges));
  }
  for (const std::string_view merge : lists.merges) {
    const auto sides = SidesOf(merge);
    if (!sides) return vocabulary.BadMerge(Quoted(merge));
    SLUICE_TRY(vocabulary.AddMerge(sides->first, sides->second));
  }
  SLUICE_TRY(vocabulary.CheckNoPairTwice());
  SLUICE_TRY(vocabulary.OrderAdded());
  return vocabulary;
}

// Every token of a GGUF has its place; what is no text of the model is an added one.
Status Vocabulary::PlaceListed(const TokenLists& lists) {
  const int64_t n = std::ssize(lists.tokens);
  if (n == 0 || n > limits::kMaxVocabularyTokens || std::ssize(lists.token_types) != n) {
    return Status::Invalid(fmt::format(
        "tokenizer.ggml.tokens has {} texts and tokenizer.ggml.token_type {} numbers; 1 to {} are "
        "wanted, as many of both",
        n, lists.token_types.size(), limits::kMaxVocabularyTokens));
  }
  is_added_.assign(lists.tokens.size(), 0);
  for (size_t id = 0; id < lists.tokens.size(); ++id) {
    const int64_t type = lists.token_types[id];
    if (!IsTokenText(lists.tokens[id])) {
      return Status::Invalid(
          fmt::format("tokenizer.ggml.tokens: token {} is {}; a token has 1 to {} bytes", id,
                      Quoted(lists.tokens[id]), limits::kMaxTokenBytes));
    }
    if (type == kNormalToken) continue;
    is_added_[id] = 1;
    added_.push_back(
        {.id = TokenId(static_cast<int32_t>(id)), .is_special = type == kControlToken});
  }
  return IndexTexts(lists.tokens);
}

Status Vocabulary::ReadTexts(JsonValue vocabulary, JsonValue added_tokens) {
  const int64_t n_max = int64_t{vocabulary.size()} + added_tokens.size();
  if (!vocabulary.is_object() || vocabulary.size() == 0 || n_max > limits::kMaxVocabularyTokens) {
    return Status::Invalid(fmt::format("model.vocab: with added_tokens, 1 to {} tokens are wanted",
                                       limits::kMaxVocabularyTokens));
  }
  // By id, as they stand in the file. No id can reach n_max unless another is missing.
  std::vector<std::string_view> texts(static_cast<size_t>(n_max));
  is_added_.assign(texts.size(), 0);
  SLUICE_TRY(PlaceTokens(vocabulary, texts));
  SLUICE_TRY(PlaceAdded(added_tokens, texts));
  while (texts.back().empty()) texts.pop_back();
  is_added_.resize(texts.size());
  return IndexTexts(texts);
}

Status Vocabulary::IndexTexts(std::span<const std::string_view> texts) {
  std::vector<uint8_t> is_found;
  for (size_t id = 0; id < texts.size(); ++id) {
    const bool is_added = is_added_[id] != 0;
    if (texts[id].empty()) {
      return Status::Invalid(fmt::format("{}: no token has id {}", members_.tokens, id));
    }
    const std::optional<std::string> bytes = is_added ? std::string(texts[id]) : BytesOf(texts[id]);
    if (!bytes) {
      return Status::Invalid(
          fmt::format("{}: {} has a character that stands for no byte, and is no added token",
                      members_.tokens, Quoted(texts[id])));
    }
    texts_.Append(*bytes);
    is_found.push_back(is_added ? 0 : 1);
  }
  const int32_t twice = texts_.Index(is_found, hash_seed_);
  if (twice < 0) return Status::Ok();
  return Status::Invalid(fmt::format("{}: token {} is {}, as another is", members_.tokens, twice,
                                     Quoted(texts[static_cast<size_t>(twice)])));
}

Status Vocabulary::PlaceAdded(JsonValue added_tokens, std::span<std::string_view> texts) {
  for (const JsonValue added : added_tokens.elements()) {
    const JsonValue content = added.Find("content");
    const std::string_view spelling = content.is_string() ? content.AsString() : "";
    const int64_t id = IdIn(added.Find("id"), texts.size());
    if (id < 0 || !IsTokenText(spelling)) {
      return BadToken("added_tokens", spelling, added.Find("id"));
    }
    SLUICE_TRY(CheckAddedFlags(added, spelling));
    // The released file has its first three in the vocabulary too.
    const auto at = static_cast<size_t>(id);
    if (is_added_[at] != 0 || (!texts[at].empty() && texts[at] != spelling)) {
      return OneIdTwice("added_tokens", texts[at], spelling, id);
    }
    texts[at] = spelling;
    is_added_[at] = 1;
    added_.push_back({.id = TokenId(static_cast<int32_t>(id)),
                      .is_special = IsTrue(added.Find("special")),
                      .is_normalized = IsTrue(added.Find("normalized"))});
  }
  return Status::Ok();
}

Status Vocabulary::FindByteTokens() {
  for (size_t byte = 0; byte < byte_tokens_.size(); ++byte) {
    const char text = static_cast<char>(byte);
    byte_tokens_[byte] = TokenId(texts_.Find({&text, 1}));
    if (byte_tokens_[byte].value >= 0) continue;
    if (rules_ != TextRules::kSmollm) {
      return Status::Invalid(
          fmt::format("{}: has no token for the byte {}", members_.tokens, byte));
    }
    lacks_bytes_ = true;
  }
  return Status::Ok();
}

Status Vocabulary::ReadMerges(JsonValue merges) {
  if (!merges.is_array() || merges.size() > limits::kMaxVocabularyMerges) {
    return Status::Invalid(
        fmt::format("model.merges: a list of at most {} is wanted", limits::kMaxVocabularyMerges));
  }
  for (const JsonValue value : merges.elements()) {
    const auto sides = SidesOf(value);
    if (!sides) return BadMerge(Shown(value));
    SLUICE_TRY(AddMerge(sides->first, sides->second));
  }
  return CheckNoPairTwice();
}

Status Vocabulary::BadMerge(std::string_view shown) const {
  return Status::Invalid(
      fmt::format("{}: merge {} is {}, not two tokens", members_.merges, merges_.size(), shown));
}

Status Vocabulary::AddMerge(std::string_view left, std::string_view right) {
  const std::optional<std::string> left_bytes = BytesOf(left), right_bytes = BytesOf(right);
  if (!left_bytes || !right_bytes) return BadMerge(Quoted(fmt::format("{} {}", left, right)));
  const Merge merge = {.left = TokenId(texts_.Find(*left_bytes)),
                       .right = TokenId(texts_.Find(*right_bytes)),
                       .result = TokenId(texts_.Find(*left_bytes + *right_bytes))};
  if (merge.left.value < 0 || merge.right.value < 0 || merge.result.value < 0) {
    return Status::Invalid(
        fmt::format("{}: merge {}, of {} and {}: both and what they make must be tokens of {}",
                    members_.merges, merges_.size(), Quoted(left), Quoted(right), members_.tokens));
  }
  merges_.push_back(merge);
  return Status::Ok();
}

// Two merges of one pair would leave its rank open.
Status Vocabulary::CheckNoPairTwice() const {
  std::vector<std::pair<TokenId, TokenId>> pairs;
  pairs.reserve(merges_.size());
  for (const Merge& merge : merges_) pairs.emplace_back(merge.left, merge.right);
  std::sort(pairs.begin(), pairs.end());
  const auto twice = std::adjacent_find(pairs.begin(), pairs.end());
  if (twice == pairs.end()) return Status::Ok();
  return Status::Invalid(fmt::format("{}: tokens {} and {} are merged twice", members_.merges,
                                     twice->first.value, twice->second.value));
}

// One spelling, one token.
Status Vocabulary::OrderAdded() {
  std::sort(added_.begin(), added_.end(),
            [this](const AddedToken& a, const AddedToken& b) { return text(a.id) < text(b.id); });
  for (size_t i = 0; i < added_.size(); ++i) {
    const std::string_view spelling = text(added_[i].id);
    int32_t other = texts_.Find(spelling);
    if (i > 0 && text(added_[i - 1].id) == spelling) other = added_[i - 1].id.value;
    if (other < 0) continue;
    return Status::Invalid(fmt::format("{}: {} is spelled by tokens {} and {}", members_.added,
                                       Quoted(spelling), other, added_[i].id.value));
  }
  return Status::Ok();
}

std::optional<TokenId> Vocabulary::FindControl(std::string_view spelling) const {
  const auto less = [this](const AddedToken& added, std::string_view wanted) {
    return text(added.id) < wanted;
  };
  const auto found = std::lower_bound(added_.begin(), added_.end(), spelling, less);
  if (found == added_.end() || text(found->id) != spelling) return std::nullopt;
  return found->id;
}

}  // namespace sluice::token
