#include "codec/format/deepseek_v41/plain_calls.h"

#include "base/json_writer.h"
#include "codec/format/deepseek_v41/format.h"

namespace sluice::codec::deepseek_v41 {
namespace {

constexpr std::string_view kInvoke = "invoke name=\"";
constexpr std::string_view kParameter = "parameter name=";
constexpr std::string_view kClosings[] = {" calls>", "tool_calls>"};
constexpr size_t kTailBytes = 16;  // the longest of the patterns
constexpr size_t kMaxNameBytes = 16'384;

}  // namespace

void PlainCalls::Move(State to) {
  state_ = to;
  tail_.clear();
  is_closing_ = false;
}

void PlainCalls::Take(std::string_view c) {
  if (state_ == State::kName) return TakeInName(c);
  if (state_ == State::kKey) return TakeInKey(c);
  if (state_ == State::kValue) return TakeInValue(c);
  if (state_ == State::kDone) return;
  tail_ += c;
  if (tail_.size() > kTailBytes && !is_closing_) tail_.erase(0, tail_.size() - kTailBytes);
  if (state_ == State::kCalls) return TakeInCalls(c);
  if (state_ == State::kArguments) {
    if (!tail_.ends_with(kParameter)) return;
    Write(has_arguments_ ? ", " : "{");
    has_arguments_ = true;
    return Move(State::kKey);
  }
  const bool is_string = tail_.ends_with("true\">");
  if (!is_string && !tail_.ends_with("false\">")) return;
  is_string_ = is_string;
  if (is_string) Write("\"");
  Move(State::kValue);
}

void PlainCalls::TakeInCalls(std::string_view) {
  if (tail_.ends_with(kInvoke)) {
    name_.clear();
    return Move(State::kName);
  }
  if (!is_closing_) return;
  bool may_close = false;
  for (const std::string_view closing : kClosings) {
    if (tail_ == closing) return Move(State::kDone);
    may_close = may_close || closing.starts_with(tail_);
  }
  is_closing_ = may_close;
}

void PlainCalls::TakeInName(std::string_view c) {
  if (c != "\"") {
    if (name_.size() + c.size() <= kMaxNameBytes) name_ += c;
    return;
  }
  events_.BeginCall(name_, without_thought_);
  has_arguments_ = false;
  Move(State::kArguments);
}

void PlainCalls::TakeInKey(std::string_view c) {
  if (c != " ") return Write(c);
  Write(": ");
  Move(State::kType);
}

void PlainCalls::TakeInValue(std::string_view c) {
  constexpr std::string_view kClosing = "</";
  if (c.size() == 1 && held_.size() < kClosing.size() && c[0] == kClosing[held_.size()]) {
    held_ = kClosing.substr(0, held_.size() + 1);
    return;
  }
  FlushValue();
  if (c == "<") {
    held_ = kClosing.substr(0, 1);
  } else if (is_string_) {
    AppendJsonEscaped(events_.TextOf(OutputKind::kArguments), c);
  } else {
    Write(c);
  }
}

void PlainCalls::FlushValue() {
  if (!held_.empty()) Write(held_);  // needs no escape
  held_ = {};
}

void PlainCalls::TakeMarkup() {
  const std::string_view spelling = SpellingOf(Control::kDsml);
  switch (state_) {
    case State::kCalls:
      is_closing_ = tail_.ends_with("</");
      tail_.clear();
      return;
    case State::kArguments:
      if (tail_.ends_with("</")) {
        Write(has_arguments_ ? "}" : "{}");
        events_.EndCall();
        return Move(State::kCalls);
      }
      tail_.clear();
      return;
    case State::kType:
      tail_.clear();
      return;
    case State::kValue:
      if (held_ == "</") {
        held_ = {};
        if (is_string_) Write("\"");
        return Move(State::kArguments);
      }
      FlushValue();
      return Write(spelling);
    case State::kName:
      name_ += spelling;
      return;
    case State::kKey:
      return Write(spelling);
    case State::kDone:
      return;
  }
}

void PlainCalls::End() { FlushValue(); }

}  // namespace sluice::codec::deepseek_v41
