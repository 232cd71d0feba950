// OutputLexer: what a model that samples bytes has written, as reasoning and content (spec
// recipe.md §8.1-8.3, the rules for text without calls). One per choice; owned by the net thread.
//
// 1. The joined output does not depend on how the tokens were cut into events: everything is
//    decided character by character, and text is held back only while it can still become a mark
//    or a stop string.
// 2. Visible text is whole UTF-8 characters: an incomplete one is held until it is complete, a
//    broken one becomes U+FFFD, and what is incomplete at the end is dropped.
// 3. Stop strings are searched in visible content only, never inside `</think>`; the earliest that
//    completes wins, of several that complete at once the longest.

#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "codec/conversation.h"
#include "codec/format/stop_set.h"
#include "codec/format/visible_tokens.h"
#include "codec/output_event.h"
#include "wire/event.h"

namespace sluice::codec::bytes {

class OutputLexer {
 public:
  struct Params {
    OutputStart start;
    const StopSet& stops;  // outlives the lexer
    bool logprobs;         // events carry the tokens of their text
  };
  explicit OutputLexer(const Params& params);

  // What these tokens make visible: at most one event of each kind, reasoning first. `logprobs`:
  // one per token, if asked for; missing ones count as below the reported range. The views live
  // until the next call.
  std::span<const OutputEvent> Push(std::span<const TokenId> tokens,
                                    std::span<const wire::TokenLogprob> logprobs);

  // The output has ended: what was held back. May still find a stop string.
  std::span<const OutputEvent> End();

  // A stop string was found: nothing that follows is shown or counted.
  bool stopped() const { return state_ == State::kDone; }
  // The one that was found.
  std::string_view stop() const { return stop_; }

  // Tokens read so far, up to and including the one that completed the stop string.
  int32_t n_tokens() const { return stopped() ? n_settled_ : n_pushed_; }
  // Tokens of the reasoning text emitted so far.
  int32_t n_reasoning() const { return n_reasoning_; }

 private:
  enum class State : uint8_t { kReasoning, kContent, kDone };

  // One UTF-8 character and how many tokens made it.
  struct Char {
    std::array<char, 4> bytes;
    uint8_t n_bytes;
    uint8_t n_tokens;

    bool is(char c) const { return n_bytes == 1 && bytes[0] == c; }
  };

  void TakeByte(uint8_t byte);
  void TakeChar(const Char& c);
  void TakeMark();
  void TakeText(const Char& c);
  void TakeContent(const Char& c);
  void FlushHeld();
  void FlushUndecided(int32_t n_keep_bytes);
  void Emit(OutputKind kind, const Char& c);
  void Drop(const Char& c);
  void BeginEvents();
  std::span<const OutputEvent> Events();
  static Char ReplacementOf(int32_t n_tokens);

  const StopSet& stops_;
  State state_;
  bool at_start_;  // of its part: line feeds are dropped while nothing else came

  // UTF-8: the character under construction.
  Char partial_{};
  int32_t n_partial_wanted_ = 0;
  uint8_t next_low_ = 0;  // what its next byte must lie in
  uint8_t next_high_ = 0;

  // Before the mark: in reasoning line feeds, then n_mark_ bytes of `</think>`.
  std::vector<Char> held_;
  int32_t n_mark_ = 0;

  // Behind it: content that may be the start of a stop string.
  std::vector<Char> undecided_;
  int32_t n_undecided_bytes_ = 0;
  StopSet::Progress progress_;
  std::string stop_;

  int32_t n_pushed_ = 0;
  int32_t n_settled_ = 0;  // shown or dropped for good
  int32_t n_reasoning_ = 0;

  std::array<std::string, 2> text_;  // of this call, by kind
  std::array<OutputEvent, 2> events_{};
  std::optional<VisibleTokens> visible_;
};

}  // namespace sluice::codec::bytes
