// OutputLexer: the tokens of a ChatML answer as content and calls. Owned by codec::OutputLexer,
// whose head says what holds of every format.
//
//   tokens -> characters, marks -> { content: tag, filter | calls } -> events
//
// 1. Where the vocabulary has tokens for <tool_call> and </tool_call> only they count; the same
//    letters in plain tokens are text. Where it has none, the letters count.
// 2. What stands between them and is no call is text, as long as nothing of it was told; behind
//    that the call is cut and the answer ends. Behind calls only calls follow: anything else ends
//    the answer.
// 3. No stop string goes across the first mark: what is held in front of it is shown.

#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "codec/conversation.h"
#include "codec/format/character_reader.h"
#include "codec/format/chatml/call_reader.h"
#include "codec/format/chatml/format.h"
#include "codec/format/content_filter.h"
#include "codec/format/output_writer.h"
#include "codec/format/stop_set.h"
#include "codec/output_event.h"

namespace sluice::codec::chatml {

class OutputLexer {
 public:
  // All outlive the lexer.
  struct Params {
    const Format& format;
    const AnswerSpec& spec;
    const StopSet& stops;  // of spec.stops
    OutputWriter& writer;
  };
  explicit OutputLexer(const Params& params);

  // Takes the token that `writer` has read, which has not ended.
  void Push(TokenId token);
  void End(bool at_limit);

  // The first token that may still become visible or part of a character; kNoToken: there is none.
  int32_t first_held_token() const;
  int32_t first_undecoded_token() const { return characters_.first_token(); }

  // As of codec::OutputLexer.
  std::string_view stop_string() const { return content_.stop_string(); }
  bool calls_are_cut() const { return is_cut_; }
  bool is_well_formed() const { return is_well_formed_ && !calls_.is_repaired(); }
  int32_t CountReasoning() const { return 0; }  // there is none

 private:
  enum class State : uint8_t { kContent, kInCalls, kBehindCalls, kDone };

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

  void TakeContent(const Character& c);
  void EndContent();
  void ShowContent();
  void FlushText(bool at_limit);
  void Finish(OutputEnd ended, int32_t n_tokens);

  // Constant after construction.
  const Format& format_;
  const AnswerSpec& spec_;
  const bool finds_text_tags_;  // calls are read, and their marks are text

  State state_ = State::kContent;
  bool is_well_formed_ = true;
  bool is_cut_ = false;

  // Tokens to characters.
  CharacterReader characters_;
  std::vector<Character> read_;  // scratch

  // Line feeds in front of a mark of calls, and what of its letters has come.
  std::vector<Character> held_;
  size_t n_tag_ = 0;  // letters matched: of <tool_call> in and behind content, else of </tool_call>

  // Of the block that is being read, in case it is text: from its mark on, until a call was told.
  std::vector<Character> unread_;
  int32_t n_tokens_closed_ = 0;  // up to the end of the last complete block

  ContentFilter content_;
  std::vector<ContentFilter::Item> passed_;  // by it; scratch

  OutputWriter& writer_;
  CallReader calls_;
};

}  // namespace sluice::codec::chatml
