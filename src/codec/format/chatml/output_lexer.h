// OutputLexer: the tokens of a ChatML answer as content and calls. One per choice; owned by the net
// thread.
//
//   tokens -> characters, marks -> { content: tag, JSON, stops | calls } -> events
//
// 1. The joined output does not depend on how the tokens were cut into events: everything is
//    decided character by character, and text is held back only while it can still become
//    something else than text.
// 2. Where the vocabulary has tokens for <tool_call> and </tool_call> only they count; the same
//    letters in plain tokens are text. Where it has none, the letters count.
// 3. What stands between them and is no call is text, as long as nothing of it was told; behind
//    that the call is cut and the answer ends. Behind calls only calls follow: anything else ends
//    the answer.
// 4. Visible text is whole UTF-8 characters: an incomplete one is held until it is complete, a
//    broken one becomes U+FFFD, and what is incomplete at the end is dropped.
// 5. Stop strings are searched in content only, and none goes across the first mark: what is held
//    in front of it is shown. The earliest that completes wins, of several that complete at once
//    the longest.
// 6. What is held is bounded, a token costs time in proportion to its text, and nothing recurses on
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
#include "codec/format/chatml/call_reader.h"
#include "codec/format/chatml/format.h"
#include "codec/format/event_list.h"
#include "codec/format/json_filter.h"
#include "codec/format/stop_set.h"
#include "codec/format/visible_tokens.h"
#include "codec/output_event.h"
#include "wire/event.h"

namespace sluice::codec::chatml {

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

  // As of deepseek_v41::OutputLexer.
  std::span<const OutputEvent> Push(std::span<const TokenId> tokens,
                                    std::span<const wire::TokenLogprob> logprobs);
  std::span<const OutputEvent> End(bool at_limit);
  OutputEnd ended() const { return ended_; }
  std::string_view stop_string() const { return stop_string_; }
  int32_t n_calls() const { return events_.n_calls(); }
  bool calls_are_cut() const { return is_cut_; }
  bool is_well_formed() const { return is_well_formed_ && !calls_.is_repaired(); }
  int32_t n_tokens() const { return ended_ == OutputEnd::kNot ? n_pushed_ : n_tokens_at_end_; }
  int32_t n_undecoded() const { return n_undecoded_; }
  int32_t CountReasoning() const { return 0; }  // there is none

 private:
  enum class State : uint8_t { kContent, kInCalls, kBehindCalls, kDone };

  void TakeToken(TokenId token);
  bool TakePlainText(std::string_view text);
  void TakeControl(TokenKind kind, std::string_view spelling);
  void TakeEnd();
  void TakeBytes(std::string_view text);
  void TakeCharacter(const Character& c);

  void TakeText(const Character& c);
  void ReleaseHeld();
  void EnterCalls();
  void TakeInCalls(const Character& c);
  void TakeClosing(const Character& c);
  void AfterCallCharacter(const Character& c);
  void EndBlock(int32_t n_tokens);
  void LeaveCalls();
  void EndCalls(bool at_limit);

  void TakeFiltered(const Character& c);
  void EndJson();
  void ShowJson();
  void TakeUndecided(const Character& c);
  void ReleaseUndecided(int32_t n_keep_bytes);
  void Show(const Character& c);
  void FlushText(bool at_limit);

  void Finish(OutputEnd ended, int32_t n_tokens);
  void BeginEvents();
  std::span<const OutputEvent> Events();
  int32_t FirstHeldToken() const;

  // Constant after construction.
  const Format& format_;
  const AnswerSpec& spec_;
  const StopSet& stops_;
  const bool finds_text_tags_;  // calls are read, and their marks are text

  State state_ = State::kContent;
  OutputEnd ended_ = OutputEnd::kNot;
  std::string stop_string_;
  bool is_well_formed_ = true;
  bool is_cut_ = false;

  // Tokens to characters.
  int32_t n_pushed_ = 0;
  int32_t n_tokens_at_end_ = 0;
  int32_t n_undecoded_ = 0;
  CharacterReader characters_;
  std::vector<Character> read_;  // scratch

  // Line feeds in front of a mark of calls, and what of its letters has come.
  std::vector<Character> held_;
  size_t n_tag_ = 0;  // letters matched: of <tool_call> in and behind content, else of </tool_call>

  // Of the block that is being read, in case it is text: from its mark on, until a call was told.
  std::vector<Character> unread_;
  int32_t n_tokens_closed_ = 0;  // up to the end of the last complete block

  std::optional<JsonFilter> json_;
  std::vector<JsonFilter::Item> json_items_;  // scratch
  int32_t last_filler_token_ = -1;            // whose place was kept

  // Content that may be the start of a stop string.
  std::vector<Character> undecided_;
  int32_t n_undecided_bytes_ = 0;
  StopSet::Progress progress_;

  EventList events_;
  CallReader calls_;
  std::optional<VisibleTokens> visible_;
};

}  // namespace sluice::codec::chatml
