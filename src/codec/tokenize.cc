#include "codec/tokenize.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "base/json.h"
#include "codec/dialect/field.h"
#include "codec/dialect/field_table.h"
#include "codec/dialect/request_check.h"
#include "codec/dialect/token_ids.h"
#include "token/bpe.h"
#include "token/vocabulary.h"

namespace sluice::codec {
namespace {

constexpr std::string_view kPromptAllowed = "a string; or `messages` stands in its place";

// The fields that are no Chat request's, types checked and nothing else; null is the same as
// absent. The views live as long as the request's JSON.
struct Body {
  std::optional<std::string_view> model;
  JsonValue prompt;
  JsonValue messages;
  JsonValue tokens;
  std::optional<bool> add_special_tokens;
  std::optional<bool> return_token_strs;
  std::optional<bool> add_generation_prompt;
  std::optional<bool> continue_final_message;
  std::vector<std::string> unknown_fields;
};

template <auto kMember>
Status Keep(const JsonValue& value, Body& body) {
  body.*kMember = value;
  return Status::Ok();
}

Status ReadModel(const JsonValue& v, Body& b) { return ReadString("model", v, b.model); }

// Those that only stand beside `messages`, and those that a Chat request does not have.
constexpr Field<Body> kOwnFields[] = {
    {"add_generation_prompt",
     [](const JsonValue& v, Body& b) {
       return Named(ReadBool("add_generation_prompt", v, b.add_generation_prompt),
                    "add_generation_prompt");
     }},
    {"add_special_tokens",
     [](const JsonValue& v, Body& b) {
       return Named(ReadBool("add_special_tokens", v, b.add_special_tokens), "add_special_tokens");
     }},
    {"continue_final_message",
     [](const JsonValue& v, Body& b) {
       return Named(ReadBool("continue_final_message", v, b.continue_final_message),
                    "continue_final_message");
     }},
    {"return_token_strs",
     [](const JsonValue& v, Body& b) {
       return Named(ReadBool("return_token_strs", v, b.return_token_strs), "return_token_strs");
     }},
};
static_assert(std::ranges::is_sorted(kOwnFields, {}, &Field<Body>::name));

constexpr Field<Body> kTextFields[] = {
    {"add_special_tokens", kOwnFields[1].read},
    {"model", ReadModel},
    {"prompt", Keep<&Body::prompt>},
    {"return_token_strs", kOwnFields[3].read},
};
static_assert(std::ranges::is_sorted(kTextFields, {}, &Field<Body>::name));

constexpr Field<Body> kIdFields[] = {
    {"model", ReadModel},
    {"tokens", Keep<&Body::tokens>},
};
static_assert(std::ranges::is_sorted(kIdFields, {}, &Field<Body>::name));

Result<Json> ParseBody(std::string_view body) {
  Result<Json> json = Json::Parse(body);
  if (!json) json.error().AddContext("invalid JSON request");
  return json;
}

bool IsGiven(const JsonValue& value) { return value.exists() && !value.is_null(); }

Status CheckAskedModel(const Body& body, const PrepareContext& context) {
  return body.model ? CheckModel(*body.model, context) : Status::Ok();
}

Result<std::vector<TokenId>> TokensOfText(const Body& body, const PrepareContext& context) {
  SLUICE_TRY(CheckAskedModel(body, context));
  if (!body.prompt.is_string()) {
    return Named(WrongValue("prompt", kPromptAllowed, body.prompt), "prompt");
  }
  std::vector<TokenId> ids;
  if (body.add_special_tokens.value_or(true)) {
    if (const std::optional<TokenId> begin = context.format.begin()) ids.push_back(*begin);
  }
  context.format.bpe().Encode(body.prompt.AsString(), ids);
  return ids;
}

// What the template of this model cannot do otherwise.
Status CheckTemplateFields(const Body& body) {
  if (!body.add_generation_prompt.value_or(true)) {
    return Status::InvalidField("add_generation_prompt",
                                "`add_generation_prompt` must be true: the tokens are those of the "
                                "prompt that an answer follows");
  }
  if (body.continue_final_message.value_or(false)) {
    return Status::InvalidField("continue_final_message",
                                "`continue_final_message` must be false: `prefix`: true in the "
                                "last message continues it");
  }
  if (body.add_special_tokens.value_or(false)) {
    return Status::InvalidField("add_special_tokens",
                                "`add_special_tokens` must be false with `messages`, whose prompt "
                                "has its control tokens");
  }
  return Status::Ok();
}

// The request as Chat reads it: without what is not Chat's, and with a model.
std::string ChatBodyOf(const JsonValue& root, const ModelCard& model) {
  std::string text;
  JsonWriter w(text);
  w.Object();
  if (!IsGiven(root.Find("model"))) w.Key("model").String(model.name);
  for (const JsonMember member : root.members()) {
    const bool is_own =
        std::ranges::binary_search(kOwnFields, member.key, {}, &Field<Body>::name) ||
        member.key == "prompt" || member.value.is_null();
    if (!is_own) w.Key(member.key).Raw(member.value.ToText());
  }
  w.EndObject();
  return text;
}

Result<Prepared> PrepareChat(const Dialect& chat,
                             const JsonValue& root,
                             const PrepareContext& context) {
  // A prompt that is too long is counted, too.
  ModelCard card = context.model;
  card.n_context = INT32_MAX;
  const PrepareContext wide{.model = card,
                            .format = context.format,
                            .strict = context.strict,
                            .default_thinking = context.default_thinking,
                            .profile = context.profile,
                            .turns = context.turns,
                            .key = context.key};
  return Prepare(chat, ChatBodyOf(root, context.model), wide);
}

std::string TokensJson(std::span<const TokenId> ids,
                       bool with_names,
                       const PrepareContext& context) {
  std::string text;
  JsonWriter w(text);
  w.Object().Key("count").Int(std::ssize(ids));
  w.Key("max_model_len").Int(context.model.n_context);
  w.Key("tokens");
  WriteIds(ids, w);
  w.Key("token_strs");
  with_names ? WriteTokenNames(ids, context.format, w) : void(w.Null());
  w.EndObject();
  return text;
}

// Byte-level vocabularies write a byte as a printable character: itself, or one from U+0100 on.
std::array<std::string, 256> MakeByteNames() {
  std::array<std::string, 256> names;
  uint32_t next = 0x100;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool is_itself = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) ||
                           (byte >= 0xAE && byte <= 0xFF);
    const uint32_t point = is_itself ? byte : next++;
    if (point < 0x80) {
      names[byte] = static_cast<char>(point);
    } else {
      names[byte] = {static_cast<char>(0xC0 | point >> 6), static_cast<char>(0x80 | (point & 63))};
    }
  }
  return names;
}

}  // namespace

void WriteIds(std::span<const TokenId> ids, JsonWriter& w) {
  w.Array();
  for (const TokenId id : ids) w.Int(id.value);
  w.EndArray();
}

void WriteTokenNames(std::span<const TokenId> ids, Format format, JsonWriter& w) {
  static const std::array<std::string, 256> kByteNames = MakeByteNames();
  w.Array();
  for (const TokenId id : ids) {
    if (format.vocabulary().is_added(id)) {
      w.String(format.text(id));
      continue;
    }
    std::string name;
    for (const char byte : format.text(id)) name += kByteNames[static_cast<unsigned char>(byte)];
    w.String(name);
  }
  w.EndArray();
}

Result<InquiryAnswer> Tokenize(const Dialect& chat,
                               std::string_view body,
                               const PrepareContext& context) {
  SLUICE_TRY(const Json json, ParseBody(body));
  const JsonValue root = json.root();
  const bool has_messages = IsGiven(root.Find("messages"));
  if (has_messages && IsGiven(root.Find("prompt"))) {
    return Status::InvalidField("prompt", "only one of `prompt` and `messages` may be there");
  }
  Body fields;
  InquiryAnswer answer;
  if (!has_messages) {
    SLUICE_TRY(ReadFields(root, kTextFields, context.strict, fields));
    SLUICE_TRY(const std::vector<TokenId> ids, TokensOfText(fields, context));
    answer.body = TokensJson(ids, fields.return_token_strs.value_or(false), context);
    answer.ignored_fields = std::move(fields.unknown_fields);
    return answer;
  }
  for (const Field<Body>& field : kOwnFields) {
    const JsonValue value = root.Find(field.name);
    if (IsGiven(value)) SLUICE_TRY(field.read(value, fields));
  }
  SLUICE_TRY(CheckTemplateFields(fields));
  SLUICE_TRY(Prepared prepared, PrepareChat(chat, root, context));
  answer.body =
      TokensJson(*prepared.generate.prompt, fields.return_token_strs.value_or(false), context);
  answer.ignored_fields = std::move(prepared.ignored_fields);
  return answer;
}

Result<InquiryAnswer> Detokenize(const Dialect&,
                                 std::string_view body,
                                 const PrepareContext& context) {
  SLUICE_TRY(const Json json, ParseBody(body));
  Body fields;
  SLUICE_TRY(ReadFields(json.root(), kIdFields, context.strict, fields));
  SLUICE_TRY(CheckAskedModel(fields, context));
  if (!fields.tokens.is_array()) {
    return Named(WrongValue("tokens", "a list of token ids", fields.tokens), "tokens");
  }
  if (fields.tokens.size() > context.model.n_context) {
    return Status::InvalidField(
        "tokens", fmt::format("`tokens` has {} ids, at most {} are allowed, the model's context",
                              fields.tokens.size(), context.model.n_context));
  }
  std::vector<TokenId> ids;
  SLUICE_TRY(
      Named(ReadTokenIds("tokens", fields.tokens, context.format.n_tokens(), ids), "tokens"));
  InquiryAnswer answer;
  JsonWriter w(answer.body);
  w.Object().Key("prompt").String(TextOf(ids, context.format)).EndObject();
  answer.ignored_fields = std::move(fields.unknown_fields);
  return answer;
}

}  // namespace sluice::codec
