#include "codec/dialect/logprobs.h"

#include <fmt/format.h>

#include <utility>

#include "base/json_writer.h"
#include "base/utf8.h"

namespace sluice::codec {
namespace {

// What the hosted service writes for a token outside the reported range; stands for everything that
// is not a number, which JSON could not carry.
constexpr float kLowest = -9999.0f;

// token, logprob, bytes: the members that a token and an alternative share; the bytes tell what the
// shown text cannot.
void AppendToken(std::string_view text, float logprob, std::string& out) {
  out += "{\"token\":";
  AppendTokenText(text, out);
  // As float: as double it would show digits that were never computed.
  fmt::format_to(std::back_inserter(out), ",\"logprob\":{}", ShownLogprob(logprob));
  out += ",\"bytes\":[";
  for (size_t i = 0; i < text.size(); ++i) {
    fmt::format_to(std::back_inserter(out), "{}{}", i > 0 ? "," : "",
                   static_cast<uint8_t>(text[i]));
  }
  out += ']';
}

// "17":{"logprob":-0.5,"rank":1,"decoded_token":"a"}
void AppendRanked(
    int32_t id, float logprob, int32_t rank, std::string_view text, std::string& out) {
  fmt::format_to(std::back_inserter(out),
                 "\"{}\":{{\"logprob\":{},\"rank\":{},\"decoded_token\":", id,
                 ShownLogprob(logprob), rank);
  AppendTokenText(text, out);
  out += '}';
}

}  // namespace

float ShownLogprob(float logprob) {
  return logprob >= kLowest && logprob <= 0.0f ? logprob + 0.0f : kLowest;
}

void AppendTokenText(std::string_view text, std::string& out) {
  out += '"';
  if (ValidUtf8Prefix(text) == text.size()) {
    AppendJsonEscaped(out, text);
  } else {
    for (char c : text)
      fmt::format_to(std::back_inserter(out), "\\\\x{:02x}", static_cast<uint8_t>(c));
  }
  out += '"';
}

void AppendPromptLogprobs(std::span<const PromptToken> tokens, int32_t n_top, std::string& list) {
  for (const PromptToken& token : tokens) {
    if (!list.empty()) list += ',';
    if (token.score == nullptr) {
      list += "null";
      continue;
    }
    list += '{';
    AppendRanked(token.id, token.score->logprob, token.score->rank, token.text, list);
    const auto& others = token.score->alternatives;
    for (size_t i = 0; i < others.size() && std::cmp_less(i, n_top); ++i) {
      if (others[i].token.value == token.id) continue;
      list += ',';
      const int32_t rank = static_cast<int32_t>(i) + 1;
      AppendRanked(others[i].token.value, others[i].logprob, rank, token.others[i], list);
    }
    list += '}';
  }
}

void AppendLogprobs(std::span<const TokenText> tokens, std::string& list) {
  for (const TokenText& token : tokens) {
    if (!list.empty()) list += ',';
    AppendToken(token.text, token.logprob, list);
    list += ",\"top_logprobs\":[";
    for (size_t i = 0; i < token.alternatives.size(); ++i) {
      if (i > 0) list += ',';
      AppendToken(token.alternatives[i].text, token.alternatives[i].logprob, list);
      list += '}';
    }
    list += "]}";
  }
}

}  // namespace sluice::codec
