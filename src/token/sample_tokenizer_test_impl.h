// Small tokenizers for tests and fuzzers, and an encoder that is slow and obvious: it knows the
// merges as pairs of texts, and looks at all neighbours for each merge. Pure functions.

#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json_writer.h"
#include "base/result.h"
#include "token/pretokenizer.h"
#include "token/vocabulary.h"

namespace sluice::token {

using TextPair = std::pair<std::string, std::string>;

// Bytes as a vocabulary spells them.
inline std::string ByteLevelText(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    uint32_t point = byte;
    if (byte <= 0x20) point = 0x100u + byte;
    if (byte >= 0x7F && byte <= 0xA0) point = 0x121u + (byte - 0x7Fu);
    if (byte == 0xAD) point = 0x143;
    if (point < 0x80) {
      text.push_back(static_cast<char>(point));
    } else {
      text.push_back(static_cast<char>(0xC0 | point >> 6));
      text.push_back(static_cast<char>(0x80 | (point & 0x3F)));
    }
  }
  return text;
}

// The text of a member pre_tokenizer that is known.
inline constexpr std::string_view kSamplePretokenizer =
    R"({"type":"Sequence","pretokenizers":[)"
    R"({"type":"Split","pattern":{"Regex":"\\p{N}{1,3}"},"behavior":"Isolated","invert":false},)"
    R"({"type":"Split","pattern":{"Regex":"[一-龥\u3040-ゟ゠-ヿ]+"},"behavior":"Isolated",)"
    R"("invert":false},)"
    R"({"type":"Split","pattern":{"Regex":"[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~])"
    R"([A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*)"
    R"(|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"},"behavior":"Isolated","invert":false},)"
    R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false}]})";

inline constexpr std::string_view kSmollmPretokenizer =
    R"({"type":"Sequence","pretokenizers":[{"type":"Digits","individual_digits":true},)"
    R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true}]})";

inline constexpr std::string_view kQwenPretokenizer =
    R"({"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":"(?i:'s|'t|'re|'ve)"
    R"(|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*)"
    R"(|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},"behavior":"Isolated","invert":false},)"
    R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":false,"use_regex":false}]})";

inline std::string_view PretokenizerOf(TextRules rules) {
  switch (rules) {
    case TextRules::kDeepseekV3:
      break;
    case TextRules::kSmollm:
      return kSmollmPretokenizer;
    case TextRules::kQwen2:
      return kQwenPretokenizer;
  }
  return kSamplePretokenizer;
}

// tokenizer.json with the bytes as ids 0 to 255, what the merges make as the next ones, each text
// once, and then the added tokens.
inline std::string SampleTokenizer(const std::vector<TextPair>& merges,
                                   const std::vector<std::string>& added,
                                   TextRules rules = TextRules::kDeepseekV3) {
  int32_t next_id = 256;
  std::set<std::string> made;
  std::string vocab, merged, control;
  JsonWriter vocab_writer(vocab), merge_writer(merged), added_writer(control);
  vocab_writer.Object();
  for (int byte = 0; byte < 256; ++byte) {
    const char text = static_cast<char>(byte);
    vocab_writer.Key(ByteLevelText({&text, 1})).Int(byte);
  }
  merge_writer.Array();
  for (const auto& [left, right] : merges) {
    merge_writer.String(ByteLevelText(left) + " " + ByteLevelText(right));
    const std::string result = left + right;
    if (made.insert(result).second) vocab_writer.Key(ByteLevelText(result)).Int(next_id++);
  }
  vocab_writer.EndObject();
  merge_writer.EndArray();
  added_writer.Array();
  for (const std::string& content : added) {
    added_writer.Object().Key("id").Int(next_id++).Key("content").String(content);
    added_writer.Key("special").Bool(true).EndObject();
  }
  added_writer.EndArray();
  return fmt::format(R"({{"added_tokens":{},{}"pre_tokenizer":{},)"
                     R"("decoder":{{"type":"ByteLevel"}},)"
                     R"("model":{{"type":"BPE","vocab":{},"merges":{}}}}})",
                     control, rules == TextRules::kQwen2 ? R"("normalizer":{"type":"NFC"},)" : "",
                     PretokenizerOf(rules), vocab, merged);
}

inline std::vector<std::string_view> PiecesOf(std::string_view text,
                                              TextRules rules = TextRules::kDeepseekV3) {
  std::vector<std::string_view> pieces;
  Pretokenizer pretokenizer(text, rules);
  for (std::string_view piece = pretokenizer.Next(); !piece.empty(); piece = pretokenizer.Next()) {
    pieces.push_back(piece);
  }
  return pieces;
}

// The texts of the tokens of `text`, in which nothing is an added token.
class SlowEncoder {
 public:
  explicit SlowEncoder(const Vocabulary& vocabulary) : rules_(vocabulary.rules()) {
    for (const Merge& merge : vocabulary.merges()) {
      const TextPair pair(vocabulary.text(merge.left), vocabulary.text(merge.right));
      rank_of_.emplace(pair, static_cast<int32_t>(rank_of_.size()));
    }
  }

  std::vector<std::string> Encode(std::string_view text) const {
    std::vector<std::string> tokens;
    for (const std::string_view piece : PiecesOf(text, rules_)) {
      std::vector<std::string> parts;
      for (const char byte : piece) parts.emplace_back(1, byte);
      while (MergeFirst(parts)) {
      }
      tokens.insert(tokens.end(), parts.begin(), parts.end());
    }
    return tokens;
  }

 private:
  // False: no two neighbours have a merge.
  bool MergeFirst(std::vector<std::string>& parts) const {
    size_t best = 0;
    int32_t best_rank = -1;
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto found = rank_of_.find({parts[i], parts[i + 1]});
      if (found == rank_of_.end()) continue;
      if (best_rank >= 0 && found->second >= best_rank) continue;
      best = i;
      best_rank = found->second;
    }
    if (best_rank < 0) return false;
    parts[best] += parts[best + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    return true;
  }

  const TextRules rules_;
  std::map<TextPair, int32_t> rank_of_;
};

inline std::vector<std::string> TextsOf(const Vocabulary& vocabulary,
                                        const std::vector<TokenId>& ids) {
  std::vector<std::string> texts;
  for (const TokenId id : ids) texts.emplace_back(vocabulary.text(id));
  return texts;
}

}  // namespace sluice::token
