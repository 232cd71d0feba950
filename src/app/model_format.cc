#include "app/model_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "app/cut_tokenizer.h"
#include "app/known_models.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/utf8.h"
#include "model/checkpoint/gguf.h"
#include "model/checkpoint/model_place.h"
#include "model/checkpoint/untrusted_text.h"
#include "token/vocabulary.h"

namespace sluice::app {
namespace {

constexpr std::string_view kGgufEnding = ".gguf";
constexpr size_t kMaxNameBytes = 100;  // of what a file calls something
constexpr std::string_view kDefaultName = "deepseek-flash";

// What the files say.
struct Tokenizer {
  token::Vocabulary vocabulary;
  std::string source;            // its file
  std::string architecture;      // of the model, "llama"; empty: nothing tells
  std::optional<TokenId> begin;  // the file wants it in front of a text
  std::string model_name;        // as of ModelFormat
  std::string owner;
};

// It stands in messages.
std::string ForPeople(std::string_view name) {
  return model::IsPlainName(name) ? std::string(name) : model::Quote(name);
}

Result<token::Vocabulary> VocabularyOf(const model::GgufFile& file) {
  SLUICE_TRY(const std::string_view model, file.String("tokenizer.ggml.model"));
  if (model != "gpt2") {
    return Status(
        ErrorCode::kUnsupported,
        fmt::format("tokenizer.ggml.model is {}; only gpt2, a byte-level BPE, is built in",
                    model::Quote(model)));
  }
  SLUICE_TRY(const std::string_view pre, file.String("tokenizer.ggml.pre"));
  SLUICE_TRY(const auto tokens, file.Strings("tokenizer.ggml.tokens"));
  SLUICE_TRY(const auto types, file.Integers("tokenizer.ggml.token_type"));
  SLUICE_TRY(const auto merges, file.Strings("tokenizer.ggml.merges"));
  return token::Vocabulary::FromLists(
      {.pre = pre, .tokens = tokens, .token_types = types, .merges = merges});
}

// What the file puts in front of a text.
Result<std::optional<TokenId>> BeginOf(const model::GgufFile& file) {
  if (!file.Has("tokenizer.ggml.add_bos_token")) return std::optional<TokenId>();
  SLUICE_TRY(const bool adds, file.Bool("tokenizer.ggml.add_bos_token"));
  if (!adds) return std::optional<TokenId>();
  SLUICE_TRY(const int64_t id, file.Integer("tokenizer.ggml.bos_token_id"));
  if (id < 0 || id >= limits::kMaxVocabularyTokens) {
    return Status::Invalid(
        fmt::format("tokenizer.ggml.bos_token_id is {}, which no token has", id));
  }
  return std::optional(TokenId(static_cast<int32_t>(id)));
}

Result<Tokenizer> ReadGguf(FileSystem& files, const std::string& path) {
  SLUICE_TRY(const model::GgufFile file, model::GgufFile::Open(files, path));
  const auto read = [&]() -> Result<Tokenizer> {
    SLUICE_TRY(token::Vocabulary vocabulary, VocabularyOf(file));
    SLUICE_TRY(const std::string_view architecture, file.String("general.architecture"));
    SLUICE_TRY(const std::optional<TokenId> begin, BeginOf(file));
    Tokenizer tokenizer = {.vocabulary = std::move(vocabulary),
                           .source = path,
                           .architecture = ForPeople(architecture),
                           .begin = begin,
                           .model_name = ModelNameOf(path),
                           .owner = {}};
    const Result<std::string_view> owner = file.String("general.organization");
    if (owner) AppendValidUtf8(tokenizer.owner, owner->substr(0, kMaxNameBytes));
    return tokenizer;
  };
  Result<Tokenizer> tokenizer = read();
  if (!tokenizer) tokenizer.error().AddContext(path);
  return tokenizer;
}

// "llama", as config.json beside the tokenizer says; empty: nothing does.
std::string ArchitectureOf(FileSystem& files, const std::string& folder) {
  const Result<std::string> text =
      files.ReadWhole(folder + "/config.json", limits::kMaxConfigFileBytes);
  if (!text) return "";
  const Result<Json> json = Json::Parse(*text);
  if (!json || !json->root().is_object()) return "";
  const JsonValue type = json->root().Find("model_type");
  return type.is_string() ? ForPeople(type.AsString()) : "";
}

Result<Tokenizer> ReadJson(std::string_view text, const std::string& path) {
  Result<token::Vocabulary> vocabulary = token::Vocabulary::Parse(text);
  if (!vocabulary) return std::move(vocabulary.error().AddContext(path));
  return Tokenizer{.vocabulary = std::move(*vocabulary),
                   .source = path,
                   .architecture = {},
                   .begin = std::nullopt,
                   .model_name = {},
                   .owner = {}};
}

// Of a tokenizer.json, a GGUF file, or a folder with one of the two.
Result<Tokenizer> ReadTokenizer(FileSystem& files, const std::string& path) {
  if (path.ends_with(kGgufEnding)) return ReadGguf(files, path);
  if (!files.List(path)) {  // a file
    SLUICE_TRY(const std::string text, files.ReadWhole(path, limits::kMaxTokenMapBytes));
    return ReadJson(text, path);
  }
  const std::string file = path + "/tokenizer.json";
  const Result<std::string> text = files.ReadWhole(file, limits::kMaxTokenMapBytes);
  if (!text) {
    SLUICE_TRY(const model::ModelPlace place, model::FindModel(files, path));
    if (place.kind == model::ModelPlace::Kind::kGguf) return ReadGguf(files, place.path);
    return text.error();
  }
  SLUICE_TRY(Tokenizer tokenizer, ReadJson(*text, file));
  tokenizer.architecture = ArchitectureOf(files, path);
  return tokenizer;
}

bool IsQuantisation(std::string_view suffix) {
  constexpr std::string_view kFloats[] = {"f32", "f16", "bf16"};
  if (std::ranges::find(kFloats, suffix) != std::end(kFloats)) return true;
  const std::string_view digits = suffix.starts_with("iq") ? suffix.substr(1) : suffix;
  return digits.size() >= 2 && digits[0] == 'q' && digits[1] >= '1' && digits[1] <= '8';
}

}  // namespace

Result<ModelFormat> ReadFormat(FileSystem& files, const AppOptions& options) {
  const std::string& path = options.tokenizer.empty() ? options.model : options.tokenizer;
  SLUICE_TRY(Tokenizer tokenizer, path.empty() ? ReadJson(kCutTokenizer, "the built-in tokenizer")
                                               : ReadTokenizer(files, path));
  Result<codec::OwnedFormat> format =
      codec::MakeFormat(std::move(tokenizer.vocabulary), {.name = options.codec.chat_format,
                                                          .architecture = tokenizer.architecture,
                                                          .begin = tokenizer.begin});
  if (!format) return std::move(format.error().AddContext(tokenizer.source));
  return ModelFormat{.format = std::move(*format),
                     .source = std::move(tokenizer.source),
                     .model_name = std::move(tokenizer.model_name),
                     .owner = std::move(tokenizer.owner)};
}

void NameModel(const AppOptions& options, const ModelFormat& format, codec::ModelCard& card) {
  // The first family is known by the name of the API that it is served as.
  const bool has_own = !options.model.empty() && !format.format.get().thinks();
  const bool is_of_file = format.source == options.model && !format.model_name.empty();
  const std::string own = is_of_file ? format.model_name : ModelNameOf(options.model);
  card.name = !options.model_name.empty() ? options.model_name
              : has_own && !own.empty()   ? own
                                          : std::string(kDefaultName);
  card.aliases = options.model_aliases;
  if (!has_own) return;
  card.owner = is_of_file && !format.owner.empty() ? format.owner : "unknown";
  if (card.aliases == AppOptions().model_aliases) {
    card.other_names = std::exchange(card.aliases, {});
  }
  if (card.name != kDefaultName) card.other_names.emplace_back(kDefaultName);
  // As it is pulled and served by.
  for (const KnownModel& known : KnownModels()) {
    if (options.model.ends_with(known.file_name())) card.other_names.emplace_back(known.name);
  }
}

std::string ModelNameOf(std::string_view path) {
  while (path.ends_with('/')) path.remove_suffix(1);
  std::string_view stem = path.substr(path.find_last_of('/') + 1);
  if (stem.ends_with(kGgufEnding)) stem.remove_suffix(kGgufEnding.size());
  std::string name;
  for (const char c : stem.substr(0, kMaxNameBytes)) {
    const bool is_upper = c >= 'A' && c <= 'Z';
    const bool is_kept = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_';
    name += is_upper ? static_cast<char>(c | 0x20) : is_kept ? c : '-';
  }
  const size_t end = name.find_last_of(".-");
  if (end != std::string::npos && end > 0 &&
      IsQuantisation(std::string_view(name).substr(end + 1))) {
    name.resize(end);
  }
  return name;
}

}  // namespace sluice::app
