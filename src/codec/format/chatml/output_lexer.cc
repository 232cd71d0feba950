// hop 10 of 10: after Commit, before Write.
//
// Push reads sampled tokens and tells what became visible. Most tokens are plain text in a state
// that looks for nothing in it, and go straight into an event; the others go character by
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

bool IsSpace(const Character& c) { return c.is(' ') || c.is('\n') || c.is('\t') || c.is('\r'); }

}  // namespace

OutputLexer::OutputLexer(const Params& params)
    : format_(params.format),
      spec_(params.spec),
      stops_(params.stops),
      finds_text_tags_(params.spec.parses_calls && !params.format.has_call_tokens()),
      events_({.entropy = params.entropy, .choice = params.choice}),
      calls_(events_) {
  stops_.Restart(progress_);
  if (spec_.is_json) json_.emplace(spec_.profile.json_filler_spaces);
  if (spec_.logprobs) visible_.emplace(format_.vocabulary(), spec_.prompt_scores.in_echo);
  if (spec_.calls_opening.empty()) return;
  // What the prompt has of the call is read first; it is nothing of the output.
  state_ = State::kInCalls;
  calls_.Begin();
  const std::string_view mark = SpellingOf(Control::kToolCall);
  for (const char c : std::string_view(spec_.calls_opening).substr(mark.size())) {
    calls_.Take({&c, 1});
  }
}

std::span<const OutputEvent> OutputLexer::Push(std::span<const TokenId> tokens,
                                               std::span<const wire::TokenLogprob> logprobs) {
  BeginEvents();
  for (size_t i = 0; i < tokens.size() && ended_ == OutputEnd::kNot; ++i) {
    if (tokens[i].value < 0 || tokens[i].value >= format_.n_tokens()) {
      is_well_formed_ = false;
      continue;
    }
    if (visible_) visible_->Read(tokens[i], i < logprobs.size() ? &logprobs[i] : nullptr);
    ++n_pushed_;
    TakeToken(tokens[i]);
  }
  return Events();
}

std::span<const OutputEvent> OutputLexer::End(bool at_limit) {
  BeginEvents();
  if (ended_ != OutputEnd::kNot) return Events();
  n_undecoded_ = characters_.is_inside() ? n_pushed_ - characters_.first_token() : 0;
  EndCalls(at_limit);
  FlushText(at_limit);
  if (visible_) visible_->DropBefore(n_pushed_);  // a part of a character that is never completed
  return Events();
}

void OutputLexer::TakeToken(TokenId token) {
  const TokenKind kind = format_.kind(token);
  const std::string_view text = format_.text(token);
  if (kind == TokenKind::kPlainText && TakePlainText(text)) return;
  if (kind == TokenKind::kPlainText || kind == TokenKind::kText) return TakeBytes(text);
  // Text that broke off in front of a control token is broken.
  read_.clear();
  characters_.Break(read_);
  for (const Character& c : std::exchange(read_, {})) TakeCharacter(c);
  if (ended_ == OutputEnd::kNot) TakeControl(kind, text);
}

// The fast way: a text that content passes on as it is. False: it must go by characters.
bool OutputLexer::TakePlainText(std::string_view text) {
  if (state_ != State::kContent || characters_.is_inside() || n_tag_ > 0 || json_) return false;
  if (n_undecided_bytes_ > 0 || stops_.MayBegin(text)) return false;
  ReleaseHeld();
  // Held line feeds may have been, or may have become, the start of a stop string.
  if (ended_ != OutputEnd::kNot || n_undecided_bytes_ > 0) return false;
  events_.Add(OutputKind::kContent, text);
  if (visible_) visible_->Show(OutputKind::kContent, n_pushed_ - 1, n_pushed_ - 1);
  return true;
}

void OutputLexer::TakeControl(TokenKind kind, std::string_view spelling) {
  switch (kind) {
    case TokenKind::kEnd:
      return TakeEnd();
    case TokenKind::kToolCall:
      if (!spec_.parses_calls || state_ == State::kInCalls) return TakeBytes(spelling);
      for (const char byte : spelling) {
        characters_.Take(static_cast<uint8_t>(byte), n_pushed_ - 1, held_);
      }
      return EnterCalls();
    case TokenKind::kEndToolCall:
      if (state_ != State::kInCalls) {
        is_well_formed_ = false;
        return spec_.parses_calls ? void() : TakeBytes(spelling);
      }
      if (calls_.EndEarly()) return EndBlock(n_pushed_);
      TakeBytes(spelling);
      return;
    default:
      is_well_formed_ = false;
      if (!spec_.profile.remove_stray_specials) TakeBytes(spelling);
      return;
  }
}

// The token itself is no part of the output; normally it does not come at all.
void OutputLexer::TakeEnd() {
  --n_pushed_;
  EndCalls(false);
  FlushText(false);
  if (ended_ == OutputEnd::kNot) Finish(OutputEnd::kEndOfSentence, n_pushed_);
}

void OutputLexer::TakeBytes(std::string_view text) {
  read_.clear();
  for (const char byte : text) {
    characters_.Take(static_cast<uint8_t>(byte), n_pushed_ - 1, read_);
  }
  for (const Character& c : std::exchange(read_, {})) TakeCharacter(c);
}

void OutputLexer::TakeCharacter(const Character& c) {
  switch (state_) {
    case State::kContent:
      return TakeText(c);
    case State::kInCalls:
      return TakeInCalls(c);
    case State::kBehindCalls:
      if (n_tag_ == 0 && IsSpace(c)) return;
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
  if (!spec_.parses_calls || (json_ && json_->is_inside())) return TakeFiltered(c);
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
  TakeFiltered(c);
}

void OutputLexer::ReleaseHeld() {
  n_tag_ = 0;
  for (const Character& c : std::exchange(held_, {})) TakeFiltered(c);
}

// What is held ends with the mark, perhaps behind line feeds. What stands in front of it comes
// before the calls, and no stop string goes across it.
void OutputLexer::EnterCalls() {
  n_tag_ = 0;
  unread_ = std::exchange(held_, {});
  EndJson();
  ReleaseUndecided(0);
  stops_.Restart(progress_);
  if (ended_ != OutputEnd::kNot) return;
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
  if (n_calls() > 0) return Finish(OutputEnd::kCallsClosed, c.last_token + 1);
  state_ = State::kContent;
  std::vector<Character> text = std::exchange(unread_, {});
  text.pop_back();  // `c`, which may begin a mark
  for (const Character& u : text) TakeFiltered(u);
  if (ended_ == OutputEnd::kNot) TakeText(c);
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
  if (n_calls() == 0) is_well_formed_ = false;
  state_ = n_calls() > 0 ? State::kBehindCalls : State::kContent;
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
  if (at_limit || n_calls() > 0) return unread_.clear();
  state_ = State::kContent;
  for (const Character& c : std::exchange(unread_, {})) TakeFiltered(c);
}

// Text that is no mark.
void OutputLexer::TakeFiltered(const Character& c) {
  if (ended_ != OutputEnd::kNot) return;
  if (!json_) return TakeUndecided(c);
  json_items_.clear();
  json_->Take(c, json_items_);
  ShowJson();
}

void OutputLexer::EndJson() {
  if (!json_) return;
  json_items_.clear();
  json_->End(json_items_);
  ShowJson();
}

void OutputLexer::ShowJson() {
  for (const JsonFilter::Item& item : json_items_) {
    if (!item.is_filler) {
      TakeUndecided(item.character);
    } else if (item.character.first_token != last_filler_token_) {
      events_.Add(OutputKind::kContent, " ");
      last_filler_token_ = item.character.first_token;
    }
  }
}

// Finds stop strings.
void OutputLexer::TakeUndecided(const Character& c) {
  if (ended_ != OutputEnd::kNot) return;
  if (stops_.empty()) return Show(c);
  undecided_.push_back(c);
  n_undecided_bytes_ += c.n_bytes;
  int32_t n_found = 0;  // stop strings end where characters end
  for (int32_t i = 0; i < c.n_bytes; ++i) n_found = stops_.Advance(progress_, c.bytes[i]);
  ReleaseUndecided(n_found > 0 ? n_found : progress_.n_held);
  if (n_found == 0) return;
  for (const Character& u : undecided_) stop_string_ += u.text();
  undecided_.clear();
  n_undecided_bytes_ = 0;
  Finish(OutputEnd::kStopString, c.last_token + 1);
}

void OutputLexer::ReleaseUndecided(int32_t n_keep_bytes) {
  size_t n = 0;
  while (n_undecided_bytes_ > n_keep_bytes) {
    const Character& c = undecided_[n++];
    n_undecided_bytes_ -= c.n_bytes;
    Show(c);
  }
  undecided_.erase(undecided_.begin(), undecided_.begin() + static_cast<ptrdiff_t>(n));
}

void OutputLexer::Show(const Character& c) {
  events_.Add(OutputKind::kContent, c.text());
  if (visible_) visible_->Show(OutputKind::kContent, c.first_token, c.last_token);
}

// No text follows. At a limit a mark that was begun is dropped, whatever it would have become.
void OutputLexer::FlushText(bool at_limit) {
  if (state_ != State::kContent) return;
  if (at_limit && n_tag_ > 1) held_.resize(held_.size() - n_tag_);
  ReleaseHeld();
  EndJson();
  ReleaseUndecided(0);
}

void OutputLexer::Finish(OutputEnd ended, int32_t n_tokens) {
  ended_ = ended;
  n_tokens_at_end_ = n_tokens;
  state_ = State::kDone;
  held_.clear();
  unread_.clear();
}

void OutputLexer::BeginEvents() {
  events_.Clear();
  if (visible_) visible_->Forget();
}

std::span<const OutputEvent> OutputLexer::Events() {
  if (visible_) visible_->DropBefore(FirstHeldToken());
  return events_.Events(visible_ ? &*visible_ : nullptr);
}

// Tokens before it have been shown or never will be.
int32_t OutputLexer::FirstHeldToken() const {
  int32_t first = n_pushed_;
  if (characters_.is_inside()) first = characters_.first_token();
  for (const std::vector<Character>* kept : {&held_, &unread_, &undecided_}) {
    if (!kept->empty()) first = std::min(first, kept->front().first_token);
  }
  const int32_t in_json = json_ ? json_->first_held_token() : -1;
  return in_json >= 0 ? std::min(first, in_json) : first;
}

}  // namespace sluice::codec::chatml
