// OutputLexer: the sampled tokens of an answer as reasoning, content and calls, whatever format the
// model writes. One per choice; owned by the net thread.
//
//   tokens -> the lexer of the format -> ContentFilter -> OutputWriter -> events
//
// What holds of the lexer of every format:
//
// 1. The joined output does not depend on how the tokens were cut into events: everything is
//    decided character by character, and text is held back only while it can still become
//    something else than text.
// 2. Visible text is whole UTF-8 characters: an incomplete one is held until it is complete, a
//    broken one becomes U+FFFD, and what is incomplete at the end is dropped.
// 3. Stop strings are searched in content only; the earliest that completes wins, of several that
//    complete at once the longest.
// 4. What is held is bounded, a token costs time in proportion to its text, and nothing recurses on
//    the input.

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
#include "codec/format/output_writer.h"
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
    uint64_t entropy = 0;  // call ids are made from it
    int32_t choice = 0;
  };
  explicit OutputLexer(const Params& params);

  // What these tokens make visible, in order. `logprobs`: one per token, if asked for; a token
  // without one has no entry. The views live until the next call.
  std::span<const OutputEvent> Push(std::span<const TokenId> tokens,
                                    std::span<const wire::TokenLogprob> logprobs);

  // The output has ended, by itself or at a limit: what was held back. May still find a stop
  // string.
  std::span<const OutputEvent> End(bool at_limit);

  // The lexer has seen the end of the answer by itself.
  OutputEnd ended() const { return writer_.ended(); }
  std::string_view stop_string() const {  // kStopString
    return std::visit([](const auto& lexer) { return lexer.stop_string(); }, lexer_);
  }

  // Calls that were named. `calls_are_cut`: the last one is incomplete, though the output had ended
  // by itself.
  int32_t n_calls() const { return writer_.n_calls(); }
  bool calls_are_cut() const {
    return std::visit([](const auto& lexer) { return lexer.calls_are_cut(); }, lexer_);
  }

  // At the end: all of it is written as the format writes a turn. Nothing was repaired, removed for
  // being out of place, or left open; white space around markup, text around JSON and broken
  // characters may have been dropped.
  bool is_well_formed() const {
    return !has_unknown_tokens_ &&
           std::visit([](const auto& lexer) { return lexer.is_well_formed(); }, lexer_);
  }

  // Tokens read so far, up to and including the one that completed a stop string or the calls.
  int32_t n_tokens() const { return writer_.n_tokens(); }
  // After End: tokens that made no whole character and were dropped.
  int32_t n_undecoded() const { return n_undecoded_; }
  // Tokens of the reasoning text emitted so far.
  int32_t CountReasoning() {
    return std::visit([](auto& lexer) { return lexer.CountReasoning(); }, lexer_);
  }

 private:
  using Lexer = std::variant<deepseek_v41::OutputLexer, chatml::OutputLexer>;
  static Lexer Make(const Params& params, OutputWriter& writer);
  std::span<const OutputEvent> Events();

  const int32_t n_vocabulary_;
  OutputWriter writer_;
  Lexer lexer_;  // writes there
  bool has_unknown_tokens_ = false;
  int32_t n_undecoded_ = 0;
};

}  // namespace sluice::codec
