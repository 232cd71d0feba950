// OutputLexer: that of a format, whichever it is: sampled tokens in, events out. One per choice;
// owned by the net thread. What each function promises stands at deepseek_v41::OutputLexer.

#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <variant>

#include "base/ids.h"
#include "codec/conversation.h"
#include "codec/format.h"
#include "codec/format/chatml/output_lexer.h"
#include "codec/format/deepseek_v41/output_lexer.h"
#include "codec/format/stop_set.h"
#include "codec/output_event.h"
#include "wire/event.h"

namespace sluice::codec {

class OutputLexer {
 public:
  // `spec` and `stops`, those of spec.stops, outlive the lexer.
  struct Params {
    Format format;
    const AnswerSpec& spec;
    const StopSet& stops;
    uint64_t entropy = 0;
    int32_t choice = 0;
  };
  explicit OutputLexer(const Params& params) : lexer_(Make(params)) {}

  std::span<const OutputEvent> Push(std::span<const TokenId> tokens,
                                    std::span<const wire::TokenLogprob> logprobs) {
    return std::visit([&](auto& lexer) { return lexer.Push(tokens, logprobs); }, lexer_);
  }
  std::span<const OutputEvent> End(bool at_limit) {
    return std::visit([&](auto& lexer) { return lexer.End(at_limit); }, lexer_);
  }
  OutputEnd ended() const {
    return std::visit([](const auto& lexer) { return lexer.ended(); }, lexer_);
  }
  std::string_view stop_string() const {
    return std::visit([](const auto& lexer) { return lexer.stop_string(); }, lexer_);
  }
  int32_t n_calls() const {
    return std::visit([](const auto& lexer) { return lexer.n_calls(); }, lexer_);
  }
  bool calls_are_cut() const {
    return std::visit([](const auto& lexer) { return lexer.calls_are_cut(); }, lexer_);
  }
  bool is_well_formed() const {
    return std::visit([](const auto& lexer) { return lexer.is_well_formed(); }, lexer_);
  }
  int32_t n_tokens() const {
    return std::visit([](const auto& lexer) { return lexer.n_tokens(); }, lexer_);
  }
  int32_t n_undecoded() const {
    return std::visit([](const auto& lexer) { return lexer.n_undecoded(); }, lexer_);
  }
  int32_t CountReasoning() {
    return std::visit([](auto& lexer) { return lexer.CountReasoning(); }, lexer_);
  }

 private:
  using Lexer = std::variant<deepseek_v41::OutputLexer, chatml::OutputLexer>;
  static Lexer Make(const Params& params);

  Lexer lexer_;
};

}  // namespace sluice::codec
