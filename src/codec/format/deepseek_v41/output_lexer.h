// OutputLexer: the tokens of a DeepSeek-V4.1 answer as reasoning, content and calls (spec recipe.md
// §8.1-8.4). One per choice; owned by the net thread.
//
//   tokens -> characters, markup, marks
//          -> { reasoning | content: hold, JSON, stops | calls } -> events
//
// 1. The joined output does not depend on how the tokens were cut into events: everything is
//    decided character by character, and text is held back only while it can still become
//    something else than text.
// 2. `</think>` and `｜DSML｜` count only as tokens; the same letters in plain tokens are text.
// 3. Visible text is whole UTF-8 characters: an incomplete one is held until it is complete, a
//    broken one becomes U+FFFD, and what is incomplete at the end is dropped.
// 4. Stop strings are searched in visible content only; the earliest that completes wins, of
//    several that complete at once the longest.
// 5. What is held is bounded, a token costs time in proportion to its text, and nothing recurses on
//    the input.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "codec/conversation.h"
#include "codec/format/character_reader.h"
#include "codec/format/deepseek_v41/format.h"
#include "codec/format/deepseek_v41/plain_calls.h"
#include "codec/format/deepseek_v41/reasoning_counter.h"
#include "codec/format/deepseek_v41/repairing_calls.h"
#include "codec/format/event_list.h"
#include "codec/format/json_filter.h"
#include "codec/format/stop_set.h"
#include "codec/format/visible_tokens.h"
#include "codec/output_event.h"
#include "wire/event.h"

namespace sluice::codec::deepseek_v41 {

class OutputLexer {
 public:
  // All outlive the lexer.
  struct Params {
    const Format& format;
    const AnswerSpec& spec;
    const StopSet& stops;  // of spec.stops
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
  using Ended = OutputEnd;
  Ended ended() const { return ended_; }
  std::string_view stop_string() const { return stop_string_; }  // kStopString

  // Calls that were named. `calls_are_cut`: the last one is incomplete, though the output had ended
  // by itself.
  int32_t n_calls() const { return events_.n_calls(); }
  bool calls_are_cut() const { return repairing_calls_.is_cut() && spec_.parses_calls; }

  // At the end: all of it is written as the format writes a turn. Nothing was repaired, removed for
  // being out of place, or left open; line feeds around markup, text around JSON and broken
  // characters may have been dropped.
  bool is_well_formed() const {
    return is_well_formed_ && (!has_calls_block_ || repairing_calls_.is_well_formed());
  }

  // Tokens read so far, up to and including the one that completed a stop string or the calls.
  int32_t n_tokens() const { return ended_ == Ended::kNot ? n_pushed_ : n_tokens_at_end_; }
  // After End: tokens that made no whole character and were dropped.
  int32_t n_undecoded() const { return n_undecoded_; }
  // Tokens of the reasoning text emitted so far.
  int32_t CountReasoning() { return reasoning_.Count(); }

 private:
  enum class State : uint8_t { kReasoning, kContent, kCalls, kDone };
  // What is held in front of markup: line feeds, then `<`, then the token and the word behind it.
  enum class Hold : uint8_t { kNothing, kLineFeeds, kAngle, kMarkup };

  void TakeToken(TokenId token);
  bool TakePlainText(std::string_view text);
  void TakeControl(TokenKind kind, std::string_view spelling);
  void TakeEndOfSentence();
  void EndCalls(bool at_limit);
  void TakeReplaced();
  void TakeBytes(std::string_view text);
  void TakeCharacter(const Character& c);
  void TakeEndThink(std::string_view spelling);
  void TakeMarkup();
  void EnterCalls(bool at_invoke);

  void TakeText(const Character& c);
  void TakeMarkupName(const Character& c);
  void ReleaseHeld();
  void DropHeld();
  void TakeFiltered(const Character& c);
  void TakeJson(const Character& c);
  void EndJson();
  void ShowJson();
  void TakeUndecided(const Character& c);
  void ReleaseUndecided(int32_t n_keep_bytes);
  void LeaveStops(const Character& c);
  void ShowContent(const Character& c);
  void Show(OutputKind kind, const Character& c);
  void ReleaseUnasked();
  void FlushText();

  void Finish(Ended ended, int32_t n_tokens);
  void BeginEvents();
  std::span<const OutputEvent> Events();
  int32_t FirstHeldToken() const;

  // Constant after construction.
  const Format& format_;
  const AnswerSpec& spec_;
  const StopSet& stops_;
  const bool looks_for_markup_;
  const bool stops_first_;  // the reference finds stop strings even in front of markup

  State state_;
  bool at_start_;  // of its part: line feeds are dropped while nothing else came
  bool has_reasoning_ = false;
  bool has_content_ = false;
  bool has_calls_block_ = false;
  bool is_well_formed_;  // what was read, the inside of calls apart
  Ended ended_ = Ended::kNot;
  std::string stop_string_;

  // Tokens to characters.
  int32_t n_pushed_ = 0;
  int32_t n_tokens_at_end_ = 0;
  int32_t n_undecoded_ = 0;
  CharacterReader characters_;
  std::vector<Character> read_;      // scratch
  std::vector<Character> replaced_;  // the reference holds U+FFFD until text follows

  // In front of markup.
  Hold hold_ = Hold::kNothing;
  std::vector<Character> held_;
  std::string markup_name_;
  bool keeps_first_held_ = false;  // the reference shows a line feed that follows a `<`

  std::optional<JsonFilter> json_;
  std::vector<JsonFilter::Item> json_items_;  // scratch
  int32_t last_filler_token_ = -1;            // whose place was kept

  // Content that may be the start of a stop string.
  std::vector<Character> undecided_;
  int32_t n_undecided_bytes_ = 0;
  StopSet::Progress progress_;

  // Ours: text where a call was required is content, unless a limit cuts it: then the call had not
  // begun yet, and nothing is shown of it (goldens chat/calls/required-but-text and
  // responses/object/echo-generate-summary).
  bool awaits_call_ = false;
  std::vector<Character> unasked_;

  EventList events_;
  EventList hidden_;  // of calls that nobody offered
  PlainCalls plain_calls_;
  RepairingCalls repairing_calls_;
  ReasoningCounter reasoning_;
  std::optional<VisibleTokens> visible_;
};

}  // namespace sluice::codec::deepseek_v41
