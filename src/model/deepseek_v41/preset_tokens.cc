#include "model/deepseek_v41/preset_tokens.h"

#include <fmt/format.h>

#include <array>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/json.h"
#include "base/json_writer.h"
#include "base/limits.h"
#include "base/sha256.h"
#include "model/deepseek_v41/engram_tokens.h"

namespace sluice::model::deepseek_v41 {
namespace {

constexpr std::string_view kReleasedHash =
    "c90dfa01249db1be4245780a052ede752e1361c612ac6d08e2bdada7d599476b";

// Begin of sentence, end of sentence, pad; then the tokens of single bytes; then those of merges,
// merge k having id 259 + k.
constexpr int32_t kNumFixed = 3;
constexpr int32_t kFirstMerge = kNumFixed + 256;

// Those that the model's format and its draft speak of, in the order of their released ids.
constexpr std::string_view kControlTokens[] = {"<｜System｜>",
                                               "<｜fim▁hole｜>",
                                               "<｜fim▁begin｜>",
                                               "<｜fim▁end｜>",
                                               "<｜User｜>",
                                               "<｜Assistant｜>",
                                               "<think>",
                                               "</think>",
                                               "｜DSML｜",
                                               "<｜latest_reminder｜>",
                                               "<｜deepseek_image｜>",
                                               "<｜/polygon｜>",
                                               "<｜polygon｜>",
                                               "<｜/point｜>",
                                               "<｜point｜>",
                                               "<｜/box｜>",
                                               "<｜box｜>",
                                               "<｜/ref｜>",
                                               "<｜ref｜>"};
constexpr int32_t kNumControl = static_cast<int32_t>(std::size(kControlTokens));

// An added token with another id.
void WriteAdded(JsonWriter& w, JsonValue token, int32_t id) {
  w.Object();
  for (const JsonMember member : token.members()) {
    w.Key(member.key);
    member.key == "id" ? w.Int(id) : w.Raw(member.value.ToText());
  }
  w.EndObject();
}

JsonValue FindAdded(JsonValue added_tokens, std::string_view content) {
  for (const JsonValue token : added_tokens.elements()) {
    const JsonValue text = token.Find("content");
    if (text.is_string() && text.AsString() == content) return token;
  }
  return JsonValue();
}

Status WriteAddedTokens(JsonWriter& w, JsonValue added_tokens, int32_t vocab_size) {
  w.Array();
  for (const JsonValue token : added_tokens.elements()) {
    const JsonValue id = token.Find("id");
    if (!id.is(JsonKind::kInt) || id.AsInt64() >= kNumFixed) continue;
    WriteAdded(w, token, static_cast<int32_t>(id.AsInt64()));
  }
  for (int32_t i = 0; i < kNumControl; ++i) {
    const JsonValue token = FindAdded(added_tokens, kControlTokens[i]);
    if (!token) {
      return Status::Invalid(fmt::format("added_tokens: has no {}", kControlTokens[i]));
    }
    WriteAdded(w, token, vocab_size - kNumControl + i);
  }
  w.EndArray();
  return Status::Ok();
}

// Of the first n_ids tokens. That merge k makes token 259 + k is what lets a vocabulary be cut by
// counting: checked, because the merged text would otherwise have no id.
Status WriteVocabulary(JsonWriter& w, JsonValue vocab, JsonValue merges, int32_t n_ids) {
  w.Object();
  int32_t n_written = 0;
  for (const JsonMember member : vocab.members()) {
    if (!member.value.is(JsonKind::kInt) || member.value.AsInt64() >= n_ids) continue;
    w.Key(member.key).Int(member.value.AsInt64());
    ++n_written;
  }
  w.EndObject();
  if (n_written != n_ids) {
    return Status::Invalid(
        fmt::format("model.vocab: has {} ids below {}, not all of them", n_written, n_ids));
  }
  int32_t id = kFirstMerge;
  for (const JsonValue merge : merges.elements()) {
    if (id == n_ids) return Status::Ok();
    std::string token(merge.is_string() ? merge.AsString() : std::string_view());
    const size_t space = token.find(' ');
    if (space != std::string::npos) token.erase(space, 1);
    const JsonValue found = vocab.Find(token);
    if (!found.is(JsonKind::kInt) || found.AsInt64() != id) {
      return Status::Invalid(
          fmt::format("model.merges: merge {} does not make token {}", id - kFirstMerge, id));
    }
    ++id;
  }
  return Status::Invalid(fmt::format("model.merges: has fewer than {}", n_ids - kFirstMerge));
}

void WriteMerges(JsonWriter& w, JsonValue merges, int32_t n) {
  w.Array();
  for (const JsonValue merge : merges.elements()) {
    if (n-- == 0) break;
    w.String(merge.AsString());
  }
  w.EndArray();
}

Status WriteModel(JsonWriter& w, JsonValue model, int32_t vocab_size) {
  const int32_t n_ids = vocab_size - kNumControl;
  const JsonValue merges = model.Find("merges");
  w.Object();
  for (const JsonMember member : model.members()) {
    w.Key(member.key);
    if (member.key == "vocab") {
      SLUICE_TRY(WriteVocabulary(w, member.value, merges, n_ids));
    } else if (member.key == "merges") {
      WriteMerges(w, merges, n_ids - kFirstMerge);
    } else {
      w.Raw(member.value.ToText());
    }
  }
  w.EndObject();
  return Status::Ok();
}

std::string MapText(const std::vector<int32_t>& classes) {
  std::string text;
  JsonWriter w(text);
  w.Array();
  for (const int32_t token_class : classes) w.Int(token_class);
  w.EndArray();
  return text;
}

// Without texts of tokens there are no classes to find: the first ids have one each, and the rest
// share those from 3 on, so that classes of several tokens occur (spec model.md §6.1).
std::vector<int32_t> ClassesOfIds(const Config& config) {
  std::vector<int32_t> classes;
  const int32_t n_classes = config.engram_compressed_vocab_size;
  for (int32_t id = 0; id < config.vocab_size; ++id) {
    classes.push_back(id < n_classes ? id : id - n_classes + 3);
  }
  return classes;
}

}  // namespace

Status CheckReleasedTokenizer(std::string_view text) {
  std::string hash;
  for (const std::byte byte : Sha256(std::as_bytes(std::span(text)))) {
    hash += fmt::format("{:02x}", static_cast<int>(byte));
  }
  if (hash == kReleasedHash) return Status::Ok();
  return Status::Invalid(
      fmt::format("is not tokenizer.json of deepseek-ai/DeepSeek-V4.1-Flash on Hugging Face: its "
                  "SHA-256 is {}, that of the released file {}",
                  hash, kReleasedHash));
}

Result<std::string> CutTokenizer(std::string_view released, int32_t vocab_size) {
  SLUICE_CHECK(vocab_size >= kFirstMerge + kNumControl);
  SLUICE_TRY(const Json json,
             Json::Parse(released, {.text_bytes = limits::kMaxTokenMapBytes, .depth = 32}));
  std::string text;
  JsonWriter w(text);
  w.Object();
  for (const JsonMember member : json.root().members()) {
    w.Key(member.key);
    if (member.key == "added_tokens") {
      SLUICE_TRY(WriteAddedTokens(w, member.value, vocab_size));
    } else if (member.key == "model") {
      SLUICE_TRY(WriteModel(w, member.value, vocab_size));
    } else {
      w.Raw(member.value.ToText());
    }
  }
  w.EndObject();
  return text;
}

Result<std::vector<SideFile>> TokenFiles(const Preset& preset, std::string_view released) {
  const std::string map_name = "engram_token_map.json", tokenizer_name = "tokenizer.json";
  std::vector<SideFile> files;
  if (preset.tokenizer == PresetTokenizer::kNone) {
    files.push_back({.name = map_name, .text = MapText(ClassesOfIds(preset.config))});
    return files;
  }
  SLUICE_TRY(CheckReleasedTokenizer(released));
  std::string tokenizer(released);
  if (preset.tokenizer == PresetTokenizer::kCut) {
    SLUICE_TRY(tokenizer, CutTokenizer(released, preset.config.vocab_size));
  }
  SLUICE_TRY(const std::vector<int32_t> classes, BuildTokenClasses(tokenizer, preset.config));
  files.push_back({.name = tokenizer_name, .text = std::move(tokenizer)});
  // The released model has no such file: its loaders make the map from the tokenizer.
  if (preset.tokenizer == PresetTokenizer::kCut) {
    files.push_back({.name = map_name, .text = MapText(classes)});
  }
  return files;
}

}  // namespace sluice::model::deepseek_v41
