// hop 10 of 10: after Commit, before Write.
//
// Push reads a sampled token and writes what it makes visible. Most tokens are plain text in a
// state that looks for nothing in it, and go straight into an event; the others go character by
// character through the states of spec recipe.md §8.2.

#include "codec/format/deepseek_v41/output_lexer.h"

#include <algorithm>
#include <utility>

#include "base/utf8.h"

namespace sluice::codec::deepseek_v41 {
namespace {

// Line feeds that wait for markup; more of them are text.
constexpr size_t kMaxHeld = 4096;
// Characters that wait where a call was required; more of them are no call.
constexpr size_t kMaxUnasked = 4096;
// Characters U+FFFD that the reference holds at the end of a text.
constexpr size_t kMaxReplaced = 256;

// What may follow `<｜DSML｜`; everything else is text. The last two are the call itself.
constexpr std::string_view kMarkupNames[] = {" calls", "tool_calls", "function_calls", " invoke",
                                             "invoke"};

bool IsInvoke(std::string_view name) { return name.ends_with("invoke"); }

bool IsReasoning(OutputStart start) {
  return start == OutputStart::kReasoning || start == OutputStart::kReasoningContinued;
}

bool IsFresh(OutputStart start) {
  return start == OutputStart::kReasoning || start == OutputStart::kContent;
}

}  // namespace

OutputLexer::OutputLexer(const Params& params)
    : format_(params.format),
      spec_(params.spec),
      looks_for_markup_(params.spec.parses_calls || params.spec.profile.repair_calls),
      finds_stops_first_(!params.spec.profile.repair_calls && !params.spec.is_json),
      state_(IsReasoning(spec_.start) ? State::kReasoning : State::kContent),
      at_start_(IsFresh(spec_.start)),
      // The reference does not tell.
      is_well_formed_(spec_.profile.repair_calls && spec_.profile.remove_stray_specials),
      content_(params.spec, params.stops),
      writer_(params.writer),
      hidden_(CallIdParams()),
      plain_calls_(writer_.events()),
      repairing_calls_(
          spec_.tools, spec_.keeps_broken_values, spec_.parses_calls ? writer_.events() : hidden_),
      reasoning_(format_.bpe()) {
  if (!spec_.starts_in_calls) return;
  // With repair, an output that does not begin with a call is the content that it looks like.
  awaits_call_ = spec_.profile.repair_calls;
  if (!awaits_call_) state_ = State::kCalls;
}

void OutputLexer::Push(TokenId token) {
  hidden_.Clear();
  const TokenKind kind = format_.kind(token);
  const std::string_view text = format_.text(token);
  if (kind == TokenKind::kPlainText && TakePlainText(text)) return;
  if (kind == TokenKind::kPlainText || kind == TokenKind::kText) return TakeBytes(text);
  if (kind == TokenKind::kEndOfSentence && spec_.profile.remove_stray_specials) {
    return TakeEndOfSentence();
  }
  // Text that broke off in front of a control token is broken.
  read_.clear();
  characters_.Break(read_);
  for (const Character& c : read_) TakeCharacter(c);
  TakeReplaced();
  if (state_ != State::kDone) TakeControl(kind, text);
}

void OutputLexer::End(bool at_limit) {
  replaced_.clear();
  FlushText();
  if (at_limit) unasked_.clear();
  ReleaseUnasked();
  if (state_ == State::kCalls) EndCalls(at_limit);
}

int32_t OutputLexer::first_held_token() const {
  return std::min({first_undecoded_token(), FirstTokenOf(held_), content_.first_held_token(),
                   FirstTokenOf(unasked_)});
}

int32_t OutputLexer::first_undecoded_token() const {
  return std::min(FirstTokenOf(replaced_), characters_.first_token());
}

// The fast way: a text that this state passes on as it is. False: it must go by characters.
bool OutputLexer::TakePlainText(std::string_view text) {
  if (characters_.is_inside() || !replaced_.empty()) return false;
  if (state_ == State::kCalls && spec_.profile.repair_calls) {
    repairing_calls_.TakePlain(text);
    if (repairing_calls_.closed()) Finish(OutputEnd::kCallsClosed, writer_.n_read());
    return true;
  }
  if (state_ != State::kReasoning && state_ != State::kContent) return false;
  if (hold_ == Hold::kMarkup) return false;
  const bool is_content = state_ == State::kContent;
  if (awaits_call_) return false;
  if (is_content && content_.may_hold(text)) return false;
  ReleaseHeld();
  // Held line feeds may have been, or may have become, the start of a stop string.
  if (state_ == State::kDone || content_.holds_content()) return false;
  at_start_ = false;
  const OutputKind kind = is_content ? OutputKind::kContent : OutputKind::kReasoning;
  writer_.ShowToken(kind, text);
  if (is_content) {
    has_content_ = true;
  } else {
    has_reasoning_ = true;
    reasoning_.Add(text);
  }
  return true;
}

void OutputLexer::TakeControl(TokenKind kind, std::string_view spelling) {
  switch (kind) {
    case TokenKind::kEndThink:
      return TakeEndThink(spelling);
    case TokenKind::kDsml:
      return TakeMarkup();
    case TokenKind::kGrounding:
      return TakeBytes(spelling);
    default:
      is_well_formed_ = false;
      if (!spec_.profile.remove_stray_specials) TakeBytes(spelling);
      return;
  }
}

// The token itself is no part of the output; normally it does not come at all.
void OutputLexer::TakeEndOfSentence() {
  writer_.Unread();
  FlushText();
  if (state_ == State::kCalls) EndCalls(false);
  if (state_ != State::kDone) Finish(OutputEnd::kEndOfSentence, writer_.n_read());
}

void OutputLexer::EndCalls(bool at_limit) {
  spec_.profile.repair_calls ? repairing_calls_.End(at_limit) : plain_calls_.End();
}

void OutputLexer::TakeReplaced() {
  for (const Character& c : std::exchange(replaced_, {})) TakeCharacter(c);
}

void OutputLexer::TakeBytes(std::string_view text) {
  read_.clear();
  characters_.Take(text, writer_.last_token(), read_);
  for (const Character& c : read_) {
    if (!spec_.profile.keep_tail && c.text() == kReplacementCharacter &&
        replaced_.size() < kMaxReplaced) {
      replaced_.push_back(c);
      continue;
    }
    if (!replaced_.empty()) TakeReplaced();
    TakeCharacter(c);
  }
}

void OutputLexer::TakeCharacter(const Character& c) {
  switch (state_) {
    case State::kReasoning:
    case State::kContent:
      if (at_start_ && c.is('\n')) return;
      at_start_ = false;
      if (state_ == State::kContent && (content_.is_inside_json() || finds_stops_first_)) {
        return TakeContent(c);
      }
      return TakeText(c);
    case State::kCalls:
      if (!spec_.profile.repair_calls) return plain_calls_.Take(c.text());
      repairing_calls_.Take(c.text());
      if (repairing_calls_.closed()) Finish(OutputEnd::kCallsClosed, writer_.n_read());
      return;
    case State::kDone:
      return;
  }
}

void OutputLexer::TakeEndThink(std::string_view spelling) {
  if (state_ == State::kReasoning) {
    if (hold_ == Hold::kLineFeeds) DropHeld();
    ReleaseHeld();
    state_ = State::kContent;
    at_start_ = true;
    return;
  }
  is_well_formed_ = false;
  if (content_.finds_json() && state_ == State::kContent) ReleaseHeld();  // may begin the JSON
  const bool is_text = content_.is_inside_json() && !spec_.profile.remove_stray_specials;
  if (state_ == State::kContent && !is_text) {
    // No stop string goes across a mark; line feeds behind it are text.
    if (!spec_.profile.repair_calls) ReleaseContent();
    ReleaseHeld();
    ReleaseContent();
    content_.Restart();
    at_start_ = false;
    return;
  }
  if (!spec_.profile.remove_stray_specials) TakeBytes(spelling);
}

void OutputLexer::TakeMarkup() {
  if (state_ == State::kCalls) {
    spec_.profile.repair_calls ? repairing_calls_.TakeMarkup() : plain_calls_.TakeMarkup();
    return;
  }
  if (!spec_.profile.repair_calls && state_ == State::kContent) ReleaseContent();
  if (hold_ == Hold::kAngle && !spec_.profile.repair_calls) return EnterCalls(false);
  if (hold_ != Hold::kAngle) {
    is_well_formed_ = false;
    ReleaseHeld();
    return TakeBytes(SpellingOf(Control::kDsml));
  }
  // Which tag it is tells the text behind it.
  characters_.Take(SpellingOf(Control::kDsml), writer_.last_token(), held_);
  hold_ = Hold::kMarkup;
  markup_name_.clear();
}

void OutputLexer::EnterCalls(bool at_invoke) {
  DropHeld();
  if (state_ == State::kContent) EndContent();
  if (state_ == State::kDone) return;
  ReleaseUnasked();
  // A forced call follows the opening of the block at once; any other comes out of content.
  const bool is_in_place = at_invoke ? spec_.starts_in_calls && !has_content_
                                     : !spec_.starts_in_calls && state_ == State::kContent;
  if (!is_in_place || !spec_.parses_calls) is_well_formed_ = false;
  state_ = State::kCalls;
  has_calls_block_ = true;
  const bool without_thought = spec_.thinking && !has_reasoning_;
  spec_.profile.repair_calls ? repairing_calls_.Begin(at_invoke, without_thought)
                             : plain_calls_.Begin(without_thought);
}

// Holds what may stand in front of markup, and passes the rest on.
void OutputLexer::TakeText(const Character& c) {
  if (hold_ == Hold::kMarkup) return TakeMarkupName(c);
  const bool follows_angle = hold_ == Hold::kAngle;
  if (follows_angle) ReleaseHeld();
  const bool holds_lines = looks_for_markup_ || state_ == State::kReasoning;
  if (c.is('\n') && holds_lines && held_.size() < kMaxHeld) {
    if (held_.empty()) keeps_first_held_ = follows_angle && !spec_.profile.repair_calls;
    held_.push_back(c);
    hold_ = Hold::kLineFeeds;
    return;
  }
  if (c.is('<') && looks_for_markup_) {
    held_.push_back(c);
    hold_ = Hold::kAngle;
    return;
  }
  ReleaseHeld();
  TakeNoMarkup(c);
}

void OutputLexer::TakeMarkupName(const Character& c) {
  markup_name_ += c.text();
  held_.push_back(c);
  bool may_become_one = false;
  for (const std::string_view name : kMarkupNames) {
    if (markup_name_ == name) {
      if (!name.starts_with(' ')) is_well_formed_ = false;  // of older models
      return EnterCalls(IsInvoke(name));
    }
    may_become_one = may_become_one || name.starts_with(markup_name_);
  }
  if (may_become_one) return;
  is_well_formed_ = false;
  held_.pop_back();
  ReleaseHeld();
  TakeText(c);
}

void OutputLexer::ReleaseHeld() {
  hold_ = Hold::kNothing;
  for (size_t i = 0; i < held_.size(); ++i) TakeNoMarkup(held_[i]);
  held_.clear();
}

void OutputLexer::DropHeld() {
  hold_ = Hold::kNothing;
  if (keeps_first_held_ && !held_.empty() && held_[0].is('\n')) TakeNoMarkup(held_[0]);
  keeps_first_held_ = false;
  held_.clear();
}

void OutputLexer::TakeNoMarkup(const Character& c) {
  if (state_ == State::kDone) return;
  if (state_ == State::kReasoning) return Show(OutputKind::kReasoning, c);
  finds_stops_first_ ? ShowContent(c) : TakeContent(c);
}

void OutputLexer::TakeContent(const Character& c) {
  content_.Take(c, passed_);
  PassContent();
}

void OutputLexer::EndContent() {
  content_.End(passed_);
  PassContent();
}

void OutputLexer::ReleaseContent() {
  content_.Release(passed_);
  PassContent();
}

void OutputLexer::PassContent() {
  for (const ContentFilter::Item& item : passed_) {
    if (item.is_filler) {
      writer_.Show(item);
    } else {
      finds_stops_first_ ? TakeText(item.character) : ShowContent(item.character);
    }
  }
  passed_.clear();
  if (!content_.has_stopped() || state_ == State::kDone) return;
  if (finds_stops_first_) ReleaseHeld();
  Finish(OutputEnd::kStopString, content_.n_tokens_at_stop());
}

void OutputLexer::ShowContent(const Character& c) {
  if (!awaits_call_) return Show(OutputKind::kContent, c);
  unasked_.push_back(c);
  if (unasked_.size() > kMaxUnasked) ReleaseUnasked();
}

void OutputLexer::ReleaseUnasked() {
  awaits_call_ = false;
  for (const Character& c : std::exchange(unasked_, {})) Show(OutputKind::kContent, c);
}

void OutputLexer::Show(OutputKind kind, const Character& c) {
  writer_.Show(kind, c);
  if (kind == OutputKind::kContent) has_content_ = true;
  if (kind != OutputKind::kReasoning) return;
  has_reasoning_ = true;
  reasoning_.Add(c.text());
}

// No text follows. A tag that was begun is dropped, whatever it would have become.
void OutputLexer::FlushText() {
  if (state_ != State::kReasoning && state_ != State::kContent) return;
  // Thought that did not end, a call that did not come, a tag that did not.
  if (state_ == State::kReasoning || spec_.starts_in_calls || hold_ == Hold::kMarkup) {
    is_well_formed_ = false;
  }
  if (!spec_.profile.repair_calls && state_ == State::kContent) ReleaseContent();
  if (hold_ == Hold::kMarkup) DropHeld();
  ReleaseHeld();
  if (state_ == State::kContent) EndContent();
}

void OutputLexer::Finish(OutputEnd ended, int32_t n_tokens) {
  ReleaseUnasked();
  writer_.Finish(ended, n_tokens);
  state_ = State::kDone;
}

}  // namespace sluice::codec::deepseek_v41
