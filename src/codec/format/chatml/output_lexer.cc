// hop 10 of 10: after Commit, before Write.
//
// Push reads a sampled token and writes what it makes visible. Most tokens are plain text in a
// state that looks for nothing in it, and go straight into an event; the others go character by
// character.

#include "codec/format/chatml/output_lexer.h"

#include <algorithm>
#include <utility>

namespace sluice::codec::chatml {
namespace {

// Line feeds that wait for a mark; more of them are text.
constexpr size_t kMaxHeld = 4096;
// Characters of a block in which no call was found; more of them are text.
constexpr size_t kMaxUnread = 16'384;

}  // namespace

OutputLexer::OutputLexer(const Params& params)
    : format_(params.format),
      spec_(params.spec),
      finds_text_tags_(params.spec.parses_calls && !params.format.has_call_tokens()),
      content_(params.spec, params.stops),
      writer_(params.writer),
      calls_(writer_.events()) {
  if (spec_.calls_opening.empty()) return;
  // What the prompt has of the call is read first; it is nothing of the output.
  state_ = State::kInCalls;
  calls_.Begin();
  const std::string_view mark = SpellingOf(Control::kToolCall);
  characters_.Take(std::string_view(spec_.calls_opening).substr(mark.size()), 0, read_);
  for (const Character& c : read_) calls_.Take(c.text());
}

void OutputLexer::Push(TokenId token) {
  const TokenKind kind = format_.kind(token);
  const std::string_view text = format_.text(token);
  if (kind == TokenKind::kPlainText && TakePlainText(text)) return;
  if (kind == TokenKind::kPlainText || kind == TokenKind::kText) return TakeBytes(text);
  // Text that broke off in front of a control token is broken.
  read_.clear();
  characters_.Break(read_);
  for (const Character& c : read_) TakeCharacter(c);
  if (state_ != State::kDone) TakeControl(kind, text);
}

void OutputLexer::End(bool at_limit) {
  EndCalls(at_limit);
  FlushText(at_limit);
}

int32_t OutputLexer::first_held_token() const {
  return std::min({characters_.first_token(), FirstTokenOf(held_), FirstTokenOf(unread_),
                   content_.first_held_token()});
}

// The fast way: a text that content passes on as it is. False: it must go by characters.
bool OutputLexer::TakePlainText(std::string_view text) {
  if (state_ != State::kContent || characters_.is_inside() || n_tag_ > 0) return false;
  if (content_.may_hold(text)) return false;
  ReleaseHeld();
  // Held line feeds may have been, or may have become, the start of a stop string.
  if (state_ == State::kDone || content_.holds_content()) return false;
  writer_.ShowToken(OutputKind::kContent, text);
  return true;
}

void OutputLexer::TakeControl(TokenKind kind, std::string_view spelling) {
  switch (kind) {
    case TokenKind::kEnd:
      return TakeEnd();
    case TokenKind::kToolCall:
      if (!spec_.parses_calls || state_ == State::kInCalls) return TakeBytes(spelling);
      characters_.Take(spelling, writer_.last_token(), held_);
      return EnterCalls();
    case TokenKind::kEndToolCall:
      if (state_ == State::kInCalls && calls_.EndEarly()) return EndBlock(writer_.n_read());
      if (state_ != State::kInCalls) is_well_formed_ = false;
      if (state_ == State::kInCalls || !spec_.parses_calls) TakeBytes(spelling);
      return;
    default:
      is_well_formed_ = false;
      if (!spec_.profile.remove_stray_specials) TakeBytes(spelling);
      return;
  }
}

// The token itself is no part of the output; normally it does not come at all.
void OutputLexer::TakeEnd() {
  writer_.Unread();
  EndCalls(false);
  FlushText(false);
  if (state_ != State::kDone) Finish(OutputEnd::kEndOfSentence, writer_.n_read());
}

void OutputLexer::TakeBytes(std::string_view text) {
  read_.clear();
  characters_.Take(text, writer_.last_token(), read_);
  for (const Character& c : read_) TakeCharacter(c);
}

void OutputLexer::TakeCharacter(const Character& c) {
  switch (state_) {
    case State::kContent:
      return TakeText(c);
    case State::kInCalls:
      return TakeInCalls(c);
    case State::kBehindCalls:
      if (n_tag_ == 0 && c.is_space()) return;
      if (!finds_text_tags_ || !c.is(SpellingOf(Control::kToolCall)[n_tag_])) return LeaveCalls();
      held_.push_back(c);
      if (++n_tag_ == SpellingOf(Control::kToolCall).size()) EnterCalls();
      return;
    case State::kDone:
      return;
  }
}

// Holds what may stand in front of a call, and passes the rest on.
void OutputLexer::TakeText(const Character& c) {
  if (!spec_.parses_calls || content_.is_inside_json()) return TakeContent(c);
  const std::string_view tag = SpellingOf(Control::kToolCall);
  if (finds_text_tags_ && c.is(tag[n_tag_])) {
    held_.push_back(c);
    if (++n_tag_ == tag.size()) EnterCalls();
    return;
  }
  if (n_tag_ > 0) {
    ReleaseHeld();  // no letter of the mark but its first is one that begins it
    return TakeText(c);
  }
  if (c.is('\n') && held_.size() < kMaxHeld) return held_.push_back(c);
  ReleaseHeld();
  TakeContent(c);
}

void OutputLexer::ReleaseHeld() {
  n_tag_ = 0;
  for (const Character& c : std::exchange(held_, {})) TakeContent(c);
}

// What is held ends with the mark, perhaps behind line feeds. What stands in front of it comes
// before the calls, and no stop string goes across it.
void OutputLexer::EnterCalls() {
  n_tag_ = 0;
  unread_ = std::exchange(held_, {});
  EndContent();
  if (state_ == State::kDone) return;
  state_ = State::kInCalls;
  calls_.Begin();
}

void OutputLexer::TakeInCalls(const Character& c) {
  if (n_tag_ > 0) return TakeClosing(c);
  if (c.is('<') && finds_text_tags_ && calls_.EndEarly()) return TakeClosing(c);
  if (!calls_.has_told()) unread_.push_back(c);
  calls_.Take(c.text());
  AfterCallCharacter(c);
}

void OutputLexer::AfterCallCharacter(const Character& c) {
  if (calls_.has_told() || calls_.state() == CallReader::State::kBehind) unread_.clear();
  if (calls_.state() != CallReader::State::kBroken && unread_.size() <= kMaxUnread) return;
  is_well_formed_ = false;
  if (calls_.has_told()) is_cut_ = true;
  if (writer_.n_calls() > 0) return Finish(OutputEnd::kCallsClosed, c.last_token + 1);
  state_ = State::kContent;
  std::vector<Character> text = std::exchange(unread_, {});
  text.pop_back();  // `c`, which may begin a mark
  for (const Character& u : text) TakeContent(u);
  if (state_ != State::kDone) TakeText(c);
}

// Letters of </tool_call>, and nothing else.
void OutputLexer::TakeClosing(const Character& c) {
  const std::string_view tag = SpellingOf(Control::kEndToolCall);
  if (!c.is(tag[n_tag_])) {
    is_well_formed_ = false;
    return Finish(OutputEnd::kCallsClosed, c.first_token);
  }
  if (++n_tag_ == tag.size()) EndBlock(c.last_token + 1);
}

void OutputLexer::EndBlock(int32_t n_tokens) {
  n_tag_ = 0;
  unread_.clear();
  n_tokens_closed_ = n_tokens;
  // An empty list says that nothing is to be called.
  if (writer_.n_calls() == 0) is_well_formed_ = false;
  state_ = writer_.n_calls() > 0 ? State::kBehindCalls : State::kContent;
}

// Text behind calls.
void OutputLexer::LeaveCalls() {
  held_.clear();
  Finish(OutputEnd::kCallsClosed, n_tokens_closed_);
}

// The output has ended.
void OutputLexer::EndCalls(bool at_limit) {
  if (state_ == State::kBehindCalls) held_.clear();
  if (state_ != State::kInCalls) return;
  if (n_tag_ > 0 || (!at_limit && calls_.EndEarly())) return;
  if (calls_.state() == CallReader::State::kBehind) return;
  is_well_formed_ = false;
  if (calls_.has_told()) {
    is_cut_ = true;
    return;
  }
  // At a limit the call had not begun yet: nothing is shown of it.
  if (at_limit || writer_.n_calls() > 0) return unread_.clear();
  state_ = State::kContent;
  for (const Character& c : std::exchange(unread_, {})) TakeContent(c);
}

// Text that is no mark.
void OutputLexer::TakeContent(const Character& c) {
  if (state_ == State::kDone) return;
  content_.Take(c, passed_);
  ShowContent();
}

void OutputLexer::EndContent() {
  content_.End(passed_);
  ShowContent();
}

void OutputLexer::ShowContent() {
  for (const ContentFilter::Item& item : passed_) writer_.Show(item);
  passed_.clear();
  if (content_.has_stopped()) Finish(OutputEnd::kStopString, content_.n_tokens_at_stop());
}

// No text follows. At a limit a mark that was begun is dropped, whatever it would have become.
void OutputLexer::FlushText(bool at_limit) {
  if (state_ != State::kContent) return;
  if (at_limit && n_tag_ > 1) held_.resize(held_.size() - n_tag_);
  ReleaseHeld();
  EndContent();
}

void OutputLexer::Finish(OutputEnd ended, int32_t n_tokens) {
  writer_.Finish(ended, n_tokens);
  state_ = State::kDone;
  held_.clear();
  unread_.clear();
}

}  // namespace sluice::codec::chatml
