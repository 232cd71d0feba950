// hop 10 of 10: after Commit, before Write.
//
// Push reads sampled tokens and tells what became visible. Most tokens are plain text in a state
// that looks for nothing in it, and go straight into an event; the others go character by character
// through the states of spec recipe.md §8.2.

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
      stops_(params.stops),
      looks_for_markup_(params.spec.parses_calls || params.spec.profile.repair_calls),
      stops_first_(!params.spec.profile.repair_calls),
      state_(IsReasoning(spec_.start) ? State::kReasoning : State::kContent),
      at_start_(IsFresh(spec_.start)),
      // The reference does not tell.
      is_well_formed_(spec_.profile.repair_calls && spec_.profile.remove_stray_specials),
      events_({.entropy = params.entropy, .choice = params.choice}),
      hidden_({.entropy = params.entropy, .choice = params.choice}),
      plain_calls_(events_),
      repairing_calls_(
          spec_.tools, spec_.keeps_broken_values, spec_.parses_calls ? events_ : hidden_),
      reasoning_(format_.bpe()) {
  stops_.Restart(progress_);
  if (spec_.is_json) json_.emplace(spec_.profile.json_filler_spaces);
  if (spec_.logprobs) visible_.emplace(format_.vocabulary(), spec_.prompt_scores.in_echo);
  if (!spec_.starts_in_calls) return;
  // With repair, an output that does not begin with a call is the content that it looks like.
  awaits_call_ = spec_.profile.repair_calls;
  if (!awaits_call_) state_ = State::kCalls;
}

std::span<const OutputEvent> OutputLexer::Push(std::span<const TokenId> tokens,
                                               std::span<const wire::TokenLogprob> logprobs) {
  BeginEvents();
  for (size_t i = 0; i < tokens.size() && ended_ == Ended::kNot; ++i) {
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
  if (ended_ != Ended::kNot) return Events();
  n_undecoded_ = 0;
  if (characters_.is_inside()) n_undecoded_ = n_pushed_ - characters_.first_token();
  if (!replaced_.empty()) n_undecoded_ = n_pushed_ - replaced_.front().first_token;
  replaced_.clear();
  FlushText();
  if (at_limit) unasked_.clear();
  ReleaseUnasked();
  if (state_ == State::kCalls) EndCalls(at_limit);
  if (visible_) visible_->DropBefore(n_pushed_);  // a part of a character that is never completed
  return Events();
}

void OutputLexer::TakeToken(TokenId token) {
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
  if (ended_ == Ended::kNot) TakeControl(kind, text);
}

// The fast way: a text that this state passes on as it is. False: it must go by characters.
bool OutputLexer::TakePlainText(std::string_view text) {
  if (characters_.is_inside() || !replaced_.empty()) return false;
  const int32_t token = n_pushed_ - 1;
  if (state_ == State::kCalls && spec_.profile.repair_calls) {
    repairing_calls_.TakePlain(text);
    if (repairing_calls_.closed()) Finish(Ended::kCallsClosed, n_pushed_);
    return true;
  }
  if (state_ != State::kReasoning && state_ != State::kContent) return false;
  if (hold_ == Hold::kMarkup) return false;
  const bool is_content = state_ == State::kContent;
  if (awaits_call_) return false;
  if (is_content && (json_ || n_undecided_bytes_ > 0 || stops_.MayBegin(text))) return false;
  ReleaseHeld();
  // Held line feeds may have been, or may have become, the start of a stop string.
  if (ended_ != Ended::kNot || n_undecided_bytes_ > 0) return false;
  at_start_ = false;
  const OutputKind kind = is_content ? OutputKind::kContent : OutputKind::kReasoning;
  events_.Add(kind, text);
  if (visible_) visible_->Show(kind, token, token);
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
  --n_pushed_;
  FlushText();
  if (state_ == State::kCalls) EndCalls(false);
  if (ended_ == Ended::kNot) Finish(Ended::kEndOfSentence, n_pushed_);
}

void OutputLexer::EndCalls(bool at_limit) {
  spec_.profile.repair_calls ? repairing_calls_.End(at_limit) : plain_calls_.End();
}

void OutputLexer::TakeReplaced() {
  for (const Character& c : std::exchange(replaced_, {})) TakeCharacter(c);
}

void OutputLexer::TakeBytes(std::string_view text) {
  read_.clear();
  for (const char byte : text) {
    characters_.Take(static_cast<uint8_t>(byte), n_pushed_ - 1, read_);
  }
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
      if (json_ && json_->is_inside() && state_ == State::kContent) return TakeJson(c);
      if (stops_first_ && state_ == State::kContent && !json_) return TakeUndecided(c);
      return TakeText(c);
    case State::kCalls:
      if (!spec_.profile.repair_calls) return plain_calls_.Take(c.text());
      repairing_calls_.Take(c.text());
      if (repairing_calls_.closed()) Finish(Ended::kCallsClosed, n_pushed_);
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
  if (json_ && state_ == State::kContent) ReleaseHeld();  // may begin the JSON
  const bool is_text = json_ && json_->is_inside() && !spec_.profile.remove_stray_specials;
  if (state_ == State::kContent && !is_text) {
    // No stop string goes across a mark; line feeds behind it are text.
    if (stops_first_) ReleaseUndecided(0);
    ReleaseHeld();
    ReleaseUndecided(0);
    stops_.Restart(progress_);
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
  if (stops_first_ && state_ == State::kContent) ReleaseUndecided(0);
  if (hold_ == Hold::kAngle && !spec_.profile.repair_calls) return EnterCalls(false);
  if (hold_ != Hold::kAngle) {
    is_well_formed_ = false;
    ReleaseHeld();
    return TakeBytes(SpellingOf(Control::kDsml));
  }
  // Which tag it is tells the text behind it.
  read_.clear();
  for (const char byte : SpellingOf(Control::kDsml)) {
    characters_.Take(static_cast<uint8_t>(byte), n_pushed_ - 1, read_);
  }
  held_.insert(held_.end(), read_.begin(), read_.end());
  hold_ = Hold::kMarkup;
  markup_name_.clear();
}

void OutputLexer::EnterCalls(bool at_invoke) {
  DropHeld();
  if (state_ == State::kContent) {
    EndJson();
    ReleaseUndecided(0);
  }
  if (ended_ != Ended::kNot) return;
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
  TakeFiltered(c);
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
  for (size_t i = 0; i < held_.size(); ++i) TakeFiltered(held_[i]);
  held_.clear();
}

void OutputLexer::DropHeld() {
  hold_ = Hold::kNothing;
  if (keeps_first_held_ && !held_.empty() && held_[0].is('\n')) TakeFiltered(held_[0]);
  keeps_first_held_ = false;
  held_.clear();
}

// Text that is no markup.
void OutputLexer::TakeFiltered(const Character& c) {
  if (ended_ != Ended::kNot) return;
  if (state_ == State::kReasoning) return Show(OutputKind::kReasoning, c);
  if (json_) return TakeJson(c);
  stops_first_ ? ShowContent(c) : TakeUndecided(c);
}

void OutputLexer::TakeJson(const Character& c) {
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
  if (ended_ != Ended::kNot) return;
  if (stops_.empty()) return LeaveStops(c);
  undecided_.push_back(c);
  n_undecided_bytes_ += c.n_bytes;
  int32_t n_found = 0;  // stop strings end where characters end
  for (int32_t i = 0; i < c.n_bytes; ++i) n_found = stops_.Advance(progress_, c.bytes[i]);
  ReleaseUndecided(n_found > 0 ? n_found : progress_.n_held);
  if (n_found == 0) return;
  for (const Character& u : undecided_) stop_string_ += u.text();
  undecided_.clear();
  n_undecided_bytes_ = 0;
  if (stops_first_ && !json_) ReleaseHeld();
  Finish(Ended::kStopString, c.last_token + 1);
}

void OutputLexer::ReleaseUndecided(int32_t n_keep_bytes) {
  size_t n = 0;
  while (n_undecided_bytes_ > n_keep_bytes) {
    const Character& c = undecided_[n++];
    n_undecided_bytes_ -= c.n_bytes;
    LeaveStops(c);
  }
  undecided_.erase(undecided_.begin(), undecided_.begin() + static_cast<ptrdiff_t>(n));
}

void OutputLexer::LeaveStops(const Character& c) {
  stops_first_ && !json_ ? TakeText(c) : ShowContent(c);
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
  events_.Add(kind, c.text());
  if (visible_) visible_->Show(kind, c.first_token, c.last_token);
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
  if (stops_first_ && state_ == State::kContent) ReleaseUndecided(0);
  if (hold_ == Hold::kMarkup) DropHeld();
  ReleaseHeld();
  if (state_ != State::kContent) return;
  EndJson();
  ReleaseUndecided(0);
}

void OutputLexer::Finish(Ended ended, int32_t n_tokens) {
  ReleaseUnasked();
  ended_ = ended;
  n_tokens_at_end_ = n_tokens;
  state_ = State::kDone;
}

void OutputLexer::BeginEvents() {
  events_.Clear();
  hidden_.Clear();
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
  for (const std::vector<Character>* kept : {&replaced_, &held_, &undecided_, &unasked_}) {
    if (!kept->empty()) first = std::min(first, kept->front().first_token);
  }
  const int32_t in_json = json_ ? json_->first_held_token() : -1;
  return in_json >= 0 ? std::min(first, in_json) : first;
}

}  // namespace sluice::codec::deepseek_v41
