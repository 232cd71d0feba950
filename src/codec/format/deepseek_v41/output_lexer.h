// OutputLexer: the tokens of a DeepSeek-V4.1 answer as reasoning, content and calls (spec recipe.md
// §8.1-8.4). Owned by codec::OutputLexer, whose head says what holds of every format.
//
//   tokens -> characters, markup, marks
//          -> { reasoning | content: hold, filter | calls } -> events
//
// `</think>` and `｜DSML｜` count only as tokens; the same letters in plain tokens are text.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "codec/conversation.h"
#include "codec/format/character_reader.h"
#include "codec/format/content_filter.h"
#include "codec/format/deepseek_v41/format.h"
#include "codec/format/deepseek_v41/plain_calls.h"
#include "codec/format/deepseek_v41/reasoning_counter.h"
#include "codec/format/deepseek_v41/repairing_calls.h"
#include "codec/format/event_list.h"
#include "codec/format/output_writer.h"
#include "codec/format/stop_set.h"
#include "codec/output_event.h"

namespace sluice::codec::deepseek_v41 {

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
  int32_t first_undecoded_token() const;

  // As of codec::OutputLexer.
  std::string_view stop_string() const { return content_.stop_string(); }
  bool calls_are_cut() const { return repairing_calls_.is_cut() && spec_.parses_calls; }
  bool is_well_formed() const {
    return is_well_formed_ && (!has_calls_block_ || repairing_calls_.is_well_formed());
  }
  int32_t CountReasoning() { return reasoning_.Count(); }

 private:
  enum class State : uint8_t { kReasoning, kContent, kCalls, kDone };
  // What is held in front of markup: line feeds, then `<`, then the token and the word behind it.
  enum class Hold : uint8_t { kNothing, kLineFeeds, kAngle, kMarkup };

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
  void TakeNoMarkup(const Character& c);
  void TakeContent(const Character& c);
  void EndContent();
  void ReleaseContent();
  void PassContent();
  void ShowContent(const Character& c);
  void Show(OutputKind kind, const Character& c);
  void ReleaseUnasked();
  void FlushText();

  void Finish(OutputEnd ended, int32_t n_tokens);

  // Constant after construction.
  const Format& format_;
  const AnswerSpec& spec_;
  const bool looks_for_markup_;
  const bool finds_stops_first_;  // as the reference, also in front of markup

  State state_;
  bool at_start_;  // of its part: line feeds are dropped while nothing else came
  bool has_reasoning_ = false;
  bool has_content_ = false;
  bool has_calls_block_ = false;
  bool is_well_formed_;  // what was read, the inside of calls apart

  // Tokens to characters.
  CharacterReader characters_;
  std::vector<Character> read_;      // scratch
  std::vector<Character> replaced_;  // the reference holds U+FFFD until text follows

  // In front of markup.
  Hold hold_ = Hold::kNothing;
  std::vector<Character> held_;
  std::string markup_name_;
  bool keeps_first_held_ = false;  // the reference shows a line feed that follows a `<`

  ContentFilter content_;
  std::vector<ContentFilter::Item> passed_;  // by it; scratch

  // Ours: text where a call was required is content, unless a limit cuts it: then the call had not
  // begun yet, and nothing is shown of it (goldens chat/calls/required-but-text and
  // responses/object/echo-generate-summary).
  bool awaits_call_ = false;
  std::vector<Character> unasked_;

  OutputWriter& writer_;
  EventList hidden_;  // of calls that nobody offered
  PlainCalls plain_calls_;
  RepairingCalls repairing_calls_;
  ReasoningCounter reasoning_;
};

}  // namespace sluice::codec::deepseek_v41
