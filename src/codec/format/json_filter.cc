#include "codec/format/json_filter.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "base/json_writer.h"

namespace sluice::codec {
namespace {

constexpr std::string_view kOpenings[] = {"```json\n", "```\n"};
constexpr std::string_view kClosing = "\n```";

enum class Match : uint8_t { kNone, kPart, kWhole };

// Of an opening fence with what is held and `c`.
Match MatchOpening(const std::vector<Character>& held, const Character& c) {
  Match match = Match::kNone;
  for (const std::string_view opening : kOpenings) {
    if (held.size() >= opening.size() || !c.is(opening[held.size()])) continue;
    bool fits = true;
    for (size_t i = 0; i < held.size(); ++i) fits = fits && held[i].is(opening[i]);
    if (!fits) continue;
    if (held.size() + 1 == opening.size()) return Match::kWhole;
    match = Match::kPart;
  }
  return match;
}

}  // namespace

void JsonFilter::Take(const Character& c, std::vector<Item>& out) {
  switch (state_) {
    case State::kBefore:
      return TakeBefore(c, out);
    case State::kDoubtful:
      return TakeDoubtful(c, out);
    case State::kBare:
      return TakeBare(c, out);
    case State::kFenced:
      return TakeFenced(c, out);
    case State::kAfter:
      return TakeAfter(c, out);
    case State::kText:
      out.push_back({c, false});
      return;
  }
}

void JsonFilter::TakeBefore(const Character& c, std::vector<Item>& out) {
  const Match match = MatchOpening(fence_, c);
  if (match == Match::kPart) return fence_.push_back(c);
  if (match == Match::kWhole) {
    fence_.clear();
    held_.clear();
    state_ = State::kFenced;
    return;
  }
  if (!fence_.empty()) {
    for (const Character& f : fence_) AddFiller(f, out);
    fence_.clear();
    return Take(c, out);
  }
  if (!c.is('{') && !c.is('[')) return AddFiller(c, out);
  if (!as_reference_ && c.is('[') && FollowsProse()) {
    state_ = State::kDoubtful;
    return Take(c, out);
  }
  held_.clear();
  // Without an end of its own it goes on like fenced JSON.
  state_ = as_reference_ ? State::kFenced : State::kBare;
  Take(c, out);
}

// On the same line.
bool JsonFilter::FollowsProse() const {
  for (size_t i = held_.size(); i > 0 && !held_[i - 1].is('\n'); --i) {
    if (!held_[i - 1].is_space()) return true;
  }
  return false;
}

// A `[` behind prose may be the mark of a footnote ("see [1]: ..."). It is the JSON if no text
// follows on the line where it closes; else nobody can tell, and the output is shown as the
// reference shows it (golden chat/json/bracket-in-prose).
void JsonFilter::TakeDoubtful(const Character& c, std::vector<Item>& out) {
  const bool has_closed = !doubtful_.empty() && depth_ == 0;
  const bool ends_line = c.is('\n') || c.is('\r');
  if (has_closed && !c.is_space()) {
    ReleaseHeld(true, out);
    for (const Character& d : std::exchange(doubtful_, {})) out.push_back({d, false});
    state_ = State::kFenced;
    return Take(c, out);
  }
  if ((has_closed && ends_line) || held_.size() + doubtful_.size() >= kMaxHeld) {
    Believe(out);
    return Take(c, out);
  }
  doubtful_.push_back(c);
  if (!has_closed) Track(c);
}

// What was doubtful is the JSON.
void JsonFilter::Believe(std::vector<Item>& out) {
  held_.clear();
  state_ = State::kBare;
  depth_ = 0;
  in_string_ = is_escaped_ = false;
  for (const Character& c : std::exchange(doubtful_, {})) Take(c, out);
}

// Reads a character of bare JSON: brackets outside strings are counted.
void JsonFilter::Track(const Character& c) {
  if (in_string_) {
    if (c.is('"') && !is_escaped_) in_string_ = false;
    is_escaped_ = c.is('\\') && !is_escaped_;
    return;
  }
  if (c.is('"')) in_string_ = true;
  if (c.is('{') || c.is('[')) ++depth_;
  if (c.is('}') || c.is(']')) --depth_;
}

void JsonFilter::TakeBare(const Character& c, std::vector<Item>& out) {
  if (in_string_ && c.n_bytes == 1 && static_cast<uint8_t>(c.bytes[0]) < 0x20) {
    // A string may not hold it as it is.
    std::string escape;
    AppendJsonEscaped(escape, c.text());
    for (const char byte : escape) {
      Character part = c;
      part.bytes[0] = byte;
      out.push_back({part, false});
    }
    is_escaped_ = false;
    return;
  }
  out.push_back({c, false});
  Track(c);
  if (depth_ == 0) state_ = State::kAfter;
}

void JsonFilter::TakeFenced(const Character& c, std::vector<Item>& out) {
  if (c.is(kClosing[fence_.size()])) {
    fence_.push_back(c);
    if (fence_.size() < kClosing.size()) return;
    fence_.clear();
    dropped_after_ = true;
    state_ = State::kAfter;
    return;
  }
  for (const Character& f : fence_) out.push_back({f, false});
  fence_.clear();
  if (c.is(kClosing[0])) return fence_.push_back(c);
  out.push_back({c, false});
}

void JsonFilter::TakeAfter(const Character& c, std::vector<Item>& out) {
  if (as_reference_) return out.push_back({c, true});
  if (!c.is_space() || held_.size() >= kMaxHeld) {
    held_.clear();
    dropped_after_ = true;
  } else if (!dropped_after_) {
    held_.push_back(c);
  }
}

void JsonFilter::AddFiller(const Character& c, std::vector<Item>& out) {
  if (as_reference_) return out.push_back({c, true});
  if (state_ == State::kText) return out.push_back({c, false});
  held_.push_back(c);
  if (held_.size() < kMaxHeld) return;
  state_ = State::kText;
  ReleaseHeld(false, out);
}

void JsonFilter::ReleaseHeld(bool is_filler, std::vector<Item>& out) {
  for (const Character& c : held_) out.push_back({c, is_filler});
  held_.clear();
}

void JsonFilter::End(std::vector<Item>& out) {
  if (state_ == State::kDoubtful) Believe(out);
  // Ours shows an output without JSON as it is.
  const bool is_filler = state_ == State::kBefore && as_reference_;
  ReleaseHeld(is_filler, out);
  for (const Character& c : fence_) out.push_back({c, is_filler});
  fence_.clear();
}

int32_t JsonFilter::first_held_token() const {
  return std::min(FirstTokenOf(held_), FirstTokenOf(fence_));
}

}  // namespace sluice::codec
