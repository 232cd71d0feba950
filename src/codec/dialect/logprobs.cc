#include "codec/dialect/logprobs.h"

#include <fmt/format.h>

#include "base/json_writer.h"
#include "base/utf8.h"

namespace sluice::codec {
namespace {

// What the hosted service writes for a token outside the reported range; stands for everything that
// is not a number, which JSON could not carry.
constexpr float kLowest = -9999.0f;

void AppendLogprob(float logprob, std::string& out) {
  // As float: as double it would show digits that were never computed.
  fmt::format_to(std::back_inserter(out), "{}",
                 logprob >= kLowest && logprob <= 0.0f ? logprob + 0.0f : kLowest);
}

// token, logprob, bytes: the members that a token and an alternative share. A token that is not
// UTF-8 by itself is shown as \xNN, its bytes tell the rest.
void AppendToken(std::string_view text, float logprob, std::string& out) {
  out += "{\"token\":\"";
  if (ValidUtf8Prefix(text) == text.size()) {
    AppendJsonEscaped(out, text);
  } else {
    for (char c : text)
      fmt::format_to(std::back_inserter(out), "\\\\x{:02x}", static_cast<uint8_t>(c));
  }
  out += "\",\"logprob\":";
  AppendLogprob(logprob, out);
  out += ",\"bytes\":[";
  for (size_t i = 0; i < text.size(); ++i) {
    fmt::format_to(std::back_inserter(out), "{}{}", i > 0 ? "," : "",
                   static_cast<uint8_t>(text[i]));
  }
  out += ']';
}

}  // namespace

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
