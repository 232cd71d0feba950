// hop 10 of 10: after Commit, before Write.
//
// Push reads sampled tokens and tells what became visible. The states are those of spec recipe.md
// §8.2 without calls: this format renders no tools, so markup of calls is plain text.

#include "codec/format/bytes/output_lexer.h"

#include <algorithm>

#include "base/utf8.h"
#include "codec/format/bytes/render.h"

namespace sluice::codec::bytes {
namespace {

constexpr std::string_view kMark = "</think>";

// The hosted service reports this for a token outside the reported range (spec http-api.md §2.1).
constexpr float kLogprobUnreported = -9999.0f;

std::string_view TextOf(TokenId token) {
  static constexpr std::array<char, kVocabulary> kBytes = [] {
    std::array<char, kVocabulary> bytes{};
    for (int32_t i = 0; i < kVocabulary; ++i) bytes[i] = static_cast<char>(i);
    return bytes;
  }();
  if (token.value < 0 || token.value >= kVocabulary) return "<｜end▁of▁sentence｜>";
  return std::string_view(&kBytes[token.value], 1);
}

bool IsReasoning(OutputStart start) {
  return start == OutputStart::kReasoning || start == OutputStart::kReasoningContinued;
}

}  // namespace

OutputLexer::OutputLexer(const Params& params)
    : stops_(params.stops),
      state_(IsReasoning(params.start) ? State::kReasoning : State::kContent),
      at_start_(params.start == OutputStart::kReasoning || params.start == OutputStart::kContent) {
  stops_.Restart(progress_);
  if (params.logprobs) visible_.emplace(&TextOf);
}

std::span<const OutputEvent> OutputLexer::Push(std::span<const TokenId> tokens,
                                               std::span<const wire::TokenLogprob> logprobs) {
  BeginEvents();
  for (size_t i = 0; i < tokens.size() && state_ != State::kDone; ++i) {
    int32_t id = tokens[i].value;
    if (id < 0 || id >= kVocabulary) continue;  // the end token: its event says that it is the last
    ++n_pushed_;
    if (visible_) {
      visible_->Read(tokens[i],
                     i < logprobs.size()
                         ? logprobs[i]
                         : wire::TokenLogprob{.logprob = kLogprobUnreported, .alternatives = {}});
    }
    TakeByte(static_cast<uint8_t>(id));
  }
  return Events();
}

std::span<const OutputEvent> OutputLexer::End() {
  BeginEvents();
  partial_.n_bytes = 0;
  FlushHeld();
  if (state_ != State::kDone) FlushUndecided(0);
  return Events();
}

// Assembles characters by the Unicode standard's table 3-7; a broken sequence is U+FFFD per maximal
// subpart.
void OutputLexer::TakeByte(uint8_t byte) {
  if (partial_.n_bytes > 0) {
    if (byte >= next_low_ && byte <= next_high_) {
      partial_.bytes[partial_.n_bytes++] = static_cast<char>(byte);
      next_low_ = 0x80;
      next_high_ = 0xBF;
      if (partial_.n_bytes < n_partial_wanted_) return;
      Char whole = partial_;
      whole.n_tokens = whole.n_bytes;
      partial_.n_bytes = 0;
      return TakeChar(whole);
    }
    int32_t n_broken = partial_.n_bytes;
    partial_.n_bytes = 0;
    TakeChar(ReplacementOf(n_broken));
  }
  if (byte < 0x80)
    return TakeChar({.bytes = {static_cast<char>(byte)}, .n_bytes = 1, .n_tokens = 1});
  if (byte < 0xC2 || byte > 0xF4) return TakeChar(ReplacementOf(1));
  partial_.bytes[0] = static_cast<char>(byte);
  partial_.n_bytes = 1;
  n_partial_wanted_ = byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
  next_low_ = byte == 0xE0 ? 0xA0 : byte == 0xF0 ? 0x90 : 0x80;
  next_high_ = byte == 0xED ? 0x9F : byte == 0xF4 ? 0x8F : 0xBF;
}

OutputLexer::Char OutputLexer::ReplacementOf(int32_t n_tokens) {
  Char c{.bytes = {}, .n_bytes = 3, .n_tokens = static_cast<uint8_t>(n_tokens)};
  kReplacementCharacter.copy(c.bytes.data(), 3);
  return c;
}

// Finds the mark. Text in front of it goes on to TakeText once it cannot belong to the mark.
void OutputLexer::TakeChar(const Char& c) {
  if (state_ == State::kDone) return;
  if (c.is(kMark[n_mark_])) {
    held_.push_back(c);
    if (++n_mark_ == static_cast<int32_t>(kMark.size())) TakeMark();
    return;
  }
  if (n_mark_ > 0) {
    // `<` stands nowhere else in the mark: a start of it that went wrong is text as a whole.
    FlushHeld();
    return TakeChar(c);
  }
  if (state_ == State::kReasoning) {
    if (c.is('\n')) {
      if (at_start_) return Drop(c);
      return held_.push_back(c);  // dropped if the mark follows
    }
    FlushHeld();
  }
  TakeText(c);
}

void OutputLexer::TakeMark() {
  if (state_ == State::kContent) FlushUndecided(0);  // no stop string goes across a mark
  for (const Char& c : held_) Drop(c);
  held_.clear();
  n_mark_ = 0;
  stops_.Restart(progress_);
  // After a stray mark in content line feeds are text (spec recipe.md §8.2).
  at_start_ = state_ == State::kReasoning;
  state_ = State::kContent;
}

void OutputLexer::FlushHeld() {
  for (const Char& c : held_) {
    if (state_ == State::kDone) break;
    TakeText(c);
  }
  held_.clear();
  n_mark_ = 0;
}

void OutputLexer::TakeText(const Char& c) {
  if (state_ == State::kContent) return TakeContent(c);
  at_start_ = false;
  n_reasoning_ += c.n_bytes;  // of the emitted text encoded anew: a token per byte
  Emit(OutputKind::kReasoning, c);
}

void OutputLexer::TakeContent(const Char& c) {
  if (at_start_ && c.is('\n')) {
    Drop(c);
    // The stop string and the rule that drops the line feed complete at once: the stop comes first.
    if (stops_.Contains("\n")) {
      stop_ = "\n";
      state_ = State::kDone;
    }
    return;
  }
  at_start_ = false;
  if (stops_.empty()) return Emit(OutputKind::kContent, c);

  undecided_.push_back(c);
  n_undecided_bytes_ += c.n_bytes;
  int32_t n_found = 0;  // stop strings end where characters end
  for (int32_t i = 0; i < c.n_bytes; ++i) n_found = stops_.Advance(progress_, c.bytes[i]);
  FlushUndecided(n_found > 0 ? n_found : progress_.n_held);
  if (n_found == 0) return;
  for (const Char& stop : undecided_) {
    stop_.append(stop.bytes.data(), stop.n_bytes);
    Drop(stop);
  }
  undecided_.clear();
  state_ = State::kDone;
}

void OutputLexer::FlushUndecided(int32_t n_keep_bytes) {
  size_t n = 0;
  while (n_undecided_bytes_ > n_keep_bytes) {
    const Char& c = undecided_[n++];
    n_undecided_bytes_ -= c.n_bytes;
    Emit(OutputKind::kContent, c);
  }
  undecided_.erase(undecided_.begin(), undecided_.begin() + static_cast<ptrdiff_t>(n));
}

void OutputLexer::Emit(OutputKind kind, const Char& c) {
  text_[static_cast<size_t>(kind)].append(c.bytes.data(), c.n_bytes);
  n_settled_ += c.n_tokens;
  if (visible_) visible_->Show(kind, c.n_tokens);
}

void OutputLexer::Drop(const Char& c) {
  n_settled_ += c.n_tokens;
  if (visible_) visible_->Drop(c.n_tokens);
}

void OutputLexer::BeginEvents() {
  for (std::string& text : text_) text.clear();
  if (visible_) visible_->Forget();
}

std::span<const OutputEvent> OutputLexer::Events() {
  size_t n = 0;
  for (OutputKind kind : {OutputKind::kReasoning, OutputKind::kContent}) {
    const std::string& text = text_[static_cast<size_t>(kind)];
    if (text.empty()) continue;
    events_[n++] = {.kind = kind,
                    .text = text,
                    .logprobs = visible_ ? visible_->Shown(kind) : std::span<const TokenText>()};
  }
  return std::span(events_).first(n);
}

}  // namespace sluice::codec::bytes
