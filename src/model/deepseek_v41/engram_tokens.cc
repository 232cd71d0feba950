#include "model/deepseek_v41/engram_tokens.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/utf8.h"
#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/untrusted_text.h"

namespace sluice::model::deepseek_v41 {
namespace {

constexpr std::string_view kMapName = "engram_token_map.json";
constexpr std::string_view kTokenizerName = "tokenizer.json";

using CodePoints = std::vector<int32_t>;

// Characters of NFD(NFKC(text)), which is NFKD(text): both are the full compatibility
// decomposition. Nothing for text that is not UTF-8.
std::optional<CodePoints> Decompose(std::string_view text) {
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  const auto n_bytes = static_cast<utf8proc_ssize_t>(text.size());
  constexpr auto kOptions =
      static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT | UTF8PROC_STABLE);
  const utf8proc_ssize_t n = utf8proc_decompose(bytes, n_bytes, nullptr, 0, kOptions);
  if (n < 0) return std::nullopt;
  CodePoints points(static_cast<size_t>(n));
  if (n > 0) utf8proc_decompose(bytes, n_bytes, points.data(), n, kOptions);
  return points;
}

std::string Encode(const CodePoints& points) {
  std::string text;
  for (int32_t point : points) {
    utf8proc_uint8_t bytes[4];
    const utf8proc_ssize_t n = utf8proc_encode_char(point, bytes);
    text.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(n));
  }
  return text;
}

// Mn, Mc and Me: with Mn alone the released tokenizer has 99,510 classes instead of 99,092.
bool IsMark(int32_t point) {
  const utf8proc_category_t category = utf8proc_category(point);
  return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC ||
         category == UTF8PROC_CATEGORY_ME;
}

bool IsAsciiSpace(int32_t point) {
  return point == ' ' || point == '\t' || point == '\r' || point == '\n';
}

// The property White_Space.
bool IsSpace(int32_t point) {
  return (point >= 0x09 && point <= 0x0D) || point == 0x20 || point == 0x85 || point == 0xA0 ||
         point == 0x1680 || (point >= 0x2000 && point <= 0x200A) || point == 0x2028 ||
         point == 0x2029 || point == 0x202F || point == 0x205F || point == 0x3000;
}

CodePoints CollapseSpaces(const CodePoints& points) {
  CodePoints collapsed;
  bool in_run = false;
  for (int32_t point : points) {
    const bool is_space = IsAsciiSpace(point);
    if (!is_space) collapsed.push_back(point);
    if (is_space && !in_run) collapsed.push_back(' ');
    in_run = is_space;
  }
  return collapsed;
}

// Byte-level vocabularies write a byte as a printable character: itself, or 256 and up in order for
// those that are none. -1: this character stands for no byte.
int32_t ByteOf(int32_t point) {
  static const std::array<int16_t, 512> kBytes = [] {
    std::array<int16_t, 512> bytes;
    bytes.fill(-1);
    int next = 256;
    for (int16_t byte = 0; byte < 256; ++byte) {
      const bool is_itself = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) ||
                             (byte >= 0xAE && byte <= 0xFF);
      bytes[static_cast<size_t>(is_itself ? byte : next++)] = byte;
    }
    return bytes;
  }();
  return point >= 0 && point < 512 ? kBytes[static_cast<size_t>(point)] : -1;
}

// Text of a token as the tokenizer's byte-level decoder gives it for this one id: its bytes, or the
// string itself if a character stands for no byte (spaces and wide bars of added tokens).
std::string DecodeToken(std::string_view token) {
  std::string bytes;
  const auto* at = reinterpret_cast<const utf8proc_uint8_t*>(token.data());
  for (auto n_left = static_cast<utf8proc_ssize_t>(token.size()); n_left > 0;) {
    utf8proc_int32_t point = -1;
    const utf8proc_ssize_t n = utf8proc_iterate(at, n_left, &point);
    const int32_t byte = n > 0 ? ByteOf(point) : -1;
    if (byte < 0) return std::string(token);
    bytes.push_back(static_cast<char>(byte));
    at += n;
    n_left -= n;
  }
  return bytes;
}

std::string KeyOf(std::string_view token) {
  std::string text = DecodeToken(token);
  // A part of a character has no text of its own.
  const bool is_partial =
      ValidUtf8Prefix(text) != text.size() || text.find(kReplacementCharacter) != std::string::npos;
  if (is_partial) return std::string(token);
  std::string normal = NormalizeTokenText(text);
  return normal.empty() ? text : normal;
}

Status CheckCount(int64_t n_classes, const Config& config) {
  if (n_classes == config.engram_compressed_vocab_size) return Status::Ok();
  return Status::Invalid(
      fmt::format("the tokens have {} classes, and config.json says "
                  "engram_compressed_vocab_size {}: every Engram row would be another one",
                  n_classes, config.engram_compressed_vocab_size));
}

// Strings by id, [vocab_size]. Views into the document.
Result<std::vector<std::string_view>> ReadVocabulary(JsonValue root, const Config& config) {
  std::vector<std::string_view> tokens(static_cast<size_t>(config.vocab_size));
  const auto set = [&tokens](JsonValue id, std::string_view token) {
    const bool is_id = id.is(JsonKind::kInt) && id.AsInt64() >= 0 &&
                       id.AsInt64() < static_cast<int64_t>(tokens.size());
    if (is_id) tokens[static_cast<size_t>(id.AsInt64())] = token;
    return is_id;
  };
  for (JsonMember member : root.Find("model").Find("vocab").members()) {
    if (set(member.value, member.key)) continue;
    return Status::Invalid(fmt::format("model.vocab: {} has id {}; ids go from 0 to {}",
                                       Quote(member.key), Shorten(member.value.ToText()),
                                       config.vocab_size - 1));
  }
  // An added token goes before one of the vocabulary.
  for (JsonValue added : root.Find("added_tokens").elements()) {
    const JsonValue content = added.Find("content");
    if (content.is_string() && added.Find("id") && set(added.Find("id"), content.AsString())) {
      continue;
    }
    return Status::Invalid(
        fmt::format("added_tokens: {} must have a content and an id from 0 to {}",
                    Shorten(added.ToText()), config.vocab_size - 1));
  }
  const auto missing = std::find(tokens.begin(), tokens.end(), std::string_view());
  if (missing != tokens.end()) {
    return Status::Invalid(fmt::format("has no token with id {}, and vocab_size is {}",
                                       missing - tokens.begin(), config.vocab_size));
  }
  return tokens;
}

Result<Json> ParseMap(std::string_view text) {
  return Json::Parse(text, {.text_bytes = limits::kMaxTokenMapBytes, .depth = 32});
}

}  // namespace

Result<std::vector<int32_t>> LoadTokenClasses(FileSystem& fs,
                                              std::string_view folder,
                                              const Config& config) {
  if (config.engram_layer_ids.empty()) return std::vector<int32_t>();
  const std::string map_path = fmt::format("{}/{}", folder, kMapName);
  Result<std::string> map = ReadSideFile(fs, map_path, limits::kMaxTokenMapBytes);
  if (!map && map.error().code() != ErrorCode::kNotFound) return map.error();
  if (map) {
    Result<std::vector<int32_t>> classes = ParseTokenClasses(*map, config);
    if (!classes) classes.error().AddContext(map_path);
    return classes;
  }
  const std::string path = fmt::format("{}/{}", folder, kTokenizerName);
  Result<std::string> tokenizer = ReadSideFile(fs, path, limits::kMaxTokenMapBytes);
  if (!tokenizer) {
    return tokenizer.error().AddContext(
        fmt::format("Engram needs {} or {}", kMapName, kTokenizerName));
  }
  Result<std::vector<int32_t>> classes = BuildTokenClasses(*tokenizer, config);
  if (!classes) classes.error().AddContext(path);
  return classes;
}

Result<std::vector<int32_t>> ParseTokenClasses(std::string_view text, const Config& config) {
  SLUICE_TRY(const Json json, ParseMap(text));
  if (!json.root().is_array() || json.root().size() != config.vocab_size) {
    return Status::Invalid(
        fmt::format("must be a list with a class for each of {} tokens", config.vocab_size));
  }
  std::vector<int32_t> classes;
  std::vector<bool> is_used(static_cast<size_t>(config.engram_compressed_vocab_size));
  for (JsonValue value : json.root().elements()) {
    const bool is_class = value.is(JsonKind::kInt) && value.AsInt64() >= 0 &&
                          value.AsInt64() < config.engram_compressed_vocab_size;
    if (!is_class) {
      return Status::Invalid(fmt::format("token {} has class {}; classes go from 0 to {}",
                                         classes.size(), Shorten(value.ToText()),
                                         config.engram_compressed_vocab_size - 1));
    }
    classes.push_back(static_cast<int32_t>(value.AsInt64()));
    is_used[static_cast<size_t>(classes.back())] = true;
  }
  SLUICE_TRY(CheckCount(std::count(is_used.begin(), is_used.end(), true), config));
  return classes;
}

Result<std::vector<int32_t>> BuildTokenClasses(std::string_view tokenizer_json,
                                               const Config& config) {
  SLUICE_TRY(const Json json, ParseMap(tokenizer_json));
  SLUICE_TRY(const std::vector<std::string_view> tokens, ReadVocabulary(json.root(), config));
  // Ordered: a folder could choose texts whose hashes collide.
  std::map<std::string, int32_t> class_of_key;
  std::vector<int32_t> classes;
  for (std::string_view token : tokens) {
    const auto next = static_cast<int32_t>(class_of_key.size());
    classes.push_back(class_of_key.emplace(KeyOf(token), next).first->second);
  }
  SLUICE_TRY(CheckCount(static_cast<int64_t>(class_of_key.size()), config));
  return classes;
}

std::string NormalizeTokenText(std::string_view text) {
  std::optional<CodePoints> decomposed = Decompose(text);
  if (!decomposed) return "";
  CodePoints points;
  for (int32_t point : *decomposed) {
    if (!IsMark(point)) points.push_back(utf8proc_tolower(point));
  }
  points = CollapseSpaces(points);
  // One space is a word of its own; every other space at an end is not part of the word.
  if (points.size() == 1 && points[0] == ' ') return " ";
  const auto is_word = [](int32_t point) { return !IsSpace(point); };
  const auto begin = std::find_if(points.begin(), points.end(), is_word);
  const auto end = std::find_if(points.rbegin(), points.rend(), is_word).base();
  return begin == points.end() ? "" : Encode(CodePoints(begin, end));
}

}  // namespace sluice::model::deepseek_v41
