#include "app/model_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "app/cut_tokenizer.h"
#include "base/json.h"
#include "base/limits.h"
#include "model/checkpoint/gguf.h"
#include "model/checkpoint/model_place.h"
#include "token/vocabulary.h"

namespace sluice::app {
namespace {

constexpr std::string_view kGgufEnding = ".gguf";
constexpr std::string_view kDefaultName = "deepseek-flash";

Result<token::Vocabulary> VocabularyOf(const model::GgufFile& file) {
  SLUICE_TRY(const std::string_view model, file.String("tokenizer.ggml.model"));
  if (model != "gpt2") {
    return Status(
        ErrorCode::kUnsupported,
        fmt::format("tokenizer.ggml.model is \"{}\"; only gpt2, a byte-level BPE, is built "
                    "in",
                    model.substr(0, 60)));
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

Result<ModelFormat> ReadGguf(FileSystem& files, const std::string& path, codec::FormatName choice) {
  SLUICE_TRY(const model::GgufFile file, model::GgufFile::Open(files, path));
  const auto read = [&]() -> Result<ModelFormat> {
    SLUICE_TRY(token::Vocabulary vocabulary, VocabularyOf(file));
    SLUICE_TRY(const std::string_view architecture, file.String("general.architecture"));
    SLUICE_TRY(const std::optional<TokenId> begin, BeginOf(file));
    SLUICE_TRY(codec::OwnedFormat format,
               codec::MakeFormat(std::move(vocabulary),
                                 {.name = choice, .architecture = architecture, .begin = begin}));
    const Result<std::string_view> owner = file.String("general.organization");
    return ModelFormat{.format = std::move(format),
                       .source = path,
                       .model_name = ModelNameOf(path),
                       .owner = std::string(owner ? owner->substr(0, 60) : "")};
  };
  Result<ModelFormat> format = read();
  if (!format) format.error().AddContext(path);
  return format;
}

// "llama", as config.json beside the tokenizer says; empty: nothing does.
std::string ArchitectureOf(FileSystem& files, const std::string& folder) {
  const Result<std::string> text =
      files.ReadWhole(folder + "/config.json", limits::kMaxConfigFileBytes);
  if (!text) return "";
  const Result<Json> json = Json::Parse(*text);
  if (!json || !json->root().is_object()) return "";
  const JsonValue type = json->root().Find("model_type");
  return type.is_string() ? std::string(type.AsString()) : "";
}

Result<ModelFormat> ReadJson(std::string_view text,
                             const std::string& path,
                             const codec::FormatChoice& choice) {
  Result<token::Vocabulary> vocabulary = token::Vocabulary::Parse(text);
  if (!vocabulary) return std::move(vocabulary.error().AddContext(path));
  Result<codec::OwnedFormat> format = codec::MakeFormat(std::move(*vocabulary), choice);
  if (!format) return std::move(format.error().AddContext(path));
  return ModelFormat{.format = std::move(*format), .source = path, .model_name = {}, .owner = {}};
}

bool IsQuantisation(std::string_view suffix) {
  constexpr std::string_view kFloats[] = {"f32", "f16", "bf16"};
  if (std::ranges::find(kFloats, suffix) != std::end(kFloats)) return true;
  const std::string_view digits = suffix.starts_with("iq") ? suffix.substr(1) : suffix;
  return digits.size() >= 2 && digits[0] == 'q' && digits[1] >= '1' && digits[1] <= '8';
}

}  // namespace

Result<ModelFormat> ReadFormat(FileSystem& files, const AppOptions& options) {
  const codec::FormatName name = options.codec.chat_format;
  std::string path = options.tokenizer.empty() ? options.model : options.tokenizer;
  if (path.empty()) {
    return ReadJson(kCutTokenizer, "the built-in tokenizer", {.name = name});
  }
  if (path.ends_with(kGgufEnding)) return ReadGguf(files, path, name);
  if (!files.List(path) && !options.tokenizer.empty()) {
    SLUICE_TRY(const std::string text, files.ReadWhole(path, limits::kMaxTokenMapBytes));
    return ReadJson(text, path, {.name = name});
  }
  const std::string file = path + "/tokenizer.json";
  const Result<std::string> text = files.ReadWhole(file, limits::kMaxTokenMapBytes);
  if (!text) {
    SLUICE_TRY(const model::ModelPlace place, model::FindModel(files, path));
    if (place.kind == model::ModelPlace::Kind::kGguf) return ReadGguf(files, place.path, name);
    return text.error();
  }
  const std::string architecture = ArchitectureOf(files, path);
  SLUICE_TRY(ModelFormat format,
             ReadJson(*text, file, {.name = name, .architecture = architecture}));
  // The first family is known by the name of the API that it is served as.
  if (!format.format.get().thinks()) format.model_name = ModelNameOf(path);
  return format;
}

void NameModel(const AppOptions& options, const ModelFormat& format, codec::ModelCard& card) {
  const bool has_own = !format.model_name.empty() && !options.model.empty();
  card.name = !options.model_name.empty() ? options.model_name
              : has_own                   ? format.model_name
                                          : std::string(kDefaultName);
  card.aliases = options.model_aliases;
  if (!has_own) return;
  card.owner = format.owner.empty() ? "unknown" : format.owner;
  if (card.aliases == AppOptions().model_aliases)
    card.other_names = std::exchange(card.aliases, {});
  if (card.name != kDefaultName) card.other_names.emplace_back(kDefaultName);
}

std::string ModelNameOf(std::string_view path) {
  while (path.ends_with('/')) path.remove_suffix(1);
  std::string_view stem = path.substr(path.find_last_of('/') + 1);
  if (stem.ends_with(kGgufEnding)) stem.remove_suffix(kGgufEnding.size());
  std::string name;
  for (const char c : stem.substr(0, 100)) {
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
