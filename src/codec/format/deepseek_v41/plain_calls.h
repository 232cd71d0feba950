// PlainCalls: reads the markup of calls as the reference codec does (spec recipe.md §8.2, states
// Calls to Value): well-formed markup only, everything else gives what it gives there. For the
// profile of the reference; RepairingCalls is what users get. Owned by its lexer.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "codec/format/event_list.h"

namespace sluice::codec::deepseek_v41 {

class PlainCalls {
 public:
  explicit PlainCalls(EventList& events) : events_(events) {}

  // `without_thought`: no reasoning came before, though the model was to think.
  void Begin(bool without_thought) { without_thought_ = without_thought; }
  // One character of text.
  void Take(std::string_view character);
  // The markup's token `｜DSML｜`.
  void TakeMarkup();
  // The output has ended.
  void End();

 private:
  enum class State : uint8_t { kCalls, kName, kArguments, kKey, kType, kValue, kDone };

  void Move(State to);
  void TakeInCalls(std::string_view character);
  void TakeInName(std::string_view character);
  void TakeInKey(std::string_view character);
  void TakeInValue(std::string_view character);
  void FlushValue();
  void Write(std::string_view text) { events_.Add(OutputKind::kArguments, text); }

  EventList& events_;
  State state_ = State::kCalls;
  bool without_thought_ = false;
  std::string tail_;         // the last characters of this state, as many as a pattern has
  bool is_closing_ = false;  // kCalls: behind `</` and the token
  std::string name_;
  bool has_arguments_ = false;
  bool is_string_ = false;
  std::string_view held_;  // kValue: `<` or `</`, which may begin the end of the value
};

}  // namespace sluice::codec::deepseek_v41
