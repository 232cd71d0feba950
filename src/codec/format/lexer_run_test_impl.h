// Runs the OutputLexer of any format over tokens for tests and fuzzers: what came out, joined.

#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/utf8.h"
#include "codec/format.h"
#include "codec/format/output_lexer.h"
#include "codec/format/stop_set.h"
#include "token/bpe.h"

namespace sluice::codec {

struct LexedCall {
  std::string name;
  std::string arguments;
  bool is_complete = false;
  friend bool operator==(const LexedCall&, const LexedCall&) = default;
};

struct Lexed {
  std::string reasoning;
  std::string content;
  std::vector<LexedCall> calls;
  std::string tokens;  // bytes of the entries of log probabilities, in order
  int32_t n_entries = 0;
  int32_t n_tokens = 0;
  int32_t n_reasoning = 0;
  OutputEnd ended = OutputEnd::kNot;
  bool is_cut = false;
  bool is_well_formed = false;
  friend bool operator==(const Lexed&, const Lexed&) = default;
};

inline void Collect(std::span<const OutputEvent> events, Lexed& lexed) {
  for (const OutputEvent& event : events) {
    SLUICE_CHECK(ValidUtf8Prefix(event.text) == event.text.size());
    switch (event.kind) {
      case OutputKind::kReasoning:
      case OutputKind::kContent:
        SLUICE_CHECK(!event.text.empty());
        (event.kind == OutputKind::kReasoning ? lexed.reasoning : lexed.content) += event.text;
        for (const TokenText& token : event.logprobs) lexed.tokens += token.text;
        lexed.n_entries += static_cast<int32_t>(event.logprobs.size());
        break;
      case OutputKind::kCall:
        SLUICE_CHECK(event.call == static_cast<int32_t>(lexed.calls.size()));
        SLUICE_CHECK(event.call_id.starts_with("call_"));
        lexed.calls.push_back({.name = std::string(event.text), .arguments = {}});
        break;
      case OutputKind::kArguments:
        SLUICE_CHECK(!event.text.empty());
        SLUICE_CHECK(event.call + 1 == static_cast<int32_t>(lexed.calls.size()));
        lexed.calls.back().arguments += event.text;
        break;
      case OutputKind::kCallEnd:
        lexed.calls.back().is_complete = true;
        break;
    }
  }
}

// How an output is handed to the lexer.
struct Cut {
  std::vector<size_t> sizes = {};  // of the pieces in tokens, used cyclically; none: one each
  bool at_limit = false;
};

inline Lexed Lex(Format format,
                 const AnswerSpec& spec,
                 std::span<const TokenId> tokens,
                 const Cut& cut = {}) {
  const StopSet stops(spec.stops);
  OutputLexer lexer({.format = format, .spec = spec, .stops = stops});
  Lexed lexed;
  for (size_t at = 0, i = 0; at < tokens.size() && lexer.ended() == OutputEnd::kNot; ++i) {
    const size_t size = cut.sizes.empty() ? 1 : cut.sizes[i % cut.sizes.size()];
    const size_t n = std::min(size, tokens.size() - at);
    const std::vector<wire::TokenLogprob> logprobs(n, {.logprob = -0.5f, .alternatives = {}});
    Collect(lexer.Push(tokens.subspan(at, n), logprobs), lexed);
    at += n;
  }
  Collect(lexer.End(cut.at_limit), lexed);
  lexed.n_tokens = lexer.n_tokens();
  lexed.n_reasoning = lexer.CountReasoning();
  lexed.ended = lexer.ended();
  lexed.is_cut = lexer.calls_are_cut();
  lexed.is_well_formed = lexer.is_well_formed();
  return lexed;
}

// Control tokens as the text spells them.
inline std::vector<TokenId> TokensOf(Format format, std::string_view text) {
  std::vector<TokenId> tokens;
  format.bpe().EncodeWithAdded(text, tokens);
  return tokens;
}

}  // namespace sluice::codec
