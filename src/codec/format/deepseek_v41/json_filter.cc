#include "codec/format/deepseek_v41/json_filter.h"

#include <string>
#include <string_view>

#include "base/json_writer.h"

namespace sluice::codec::deepseek_v41 {
namespace {

constexpr std::string_view kOpenings[] = {"```json\n", "```\n"};
constexpr std::string_view kClosing = "\n```";

bool IsSpace(const Character& c) { return c.is(' ') || c.is('\n') || c.is('\t') || c.is('\r'); }

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
  held_.clear();
  // Without an end of its own it goes on like fenced JSON.
  state_ = as_reference_ ? State::kFenced : State::kBare;
  Take(c, out);
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
  if (in_string_) {
    if (c.is('"') && !is_escaped_) in_string_ = false;
    is_escaped_ = c.is('\\') && !is_escaped_;
    return;
  }
  if (c.is('"')) in_string_ = true;
  if (c.is('{') || c.is('[')) ++depth_;
  if ((c.is('}') || c.is(']')) && --depth_ == 0) state_ = State::kAfter;
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
  if (!IsSpace(c) || held_.size() >= kMaxHeld) {
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
  // Ours shows an output without JSON as it is.
  const bool is_filler = state_ == State::kBefore && as_reference_;
  ReleaseHeld(is_filler, out);
  for (const Character& c : fence_) out.push_back({c, is_filler});
  fence_.clear();
}

int32_t JsonFilter::first_held_token() const {
  if (!held_.empty()) return held_.front().first_token;
  return fence_.empty() ? -1 : fence_.front().first_token;
}

}  // namespace sluice::codec::deepseek_v41
