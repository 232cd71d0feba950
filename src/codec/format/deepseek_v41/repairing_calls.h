// RepairingCalls: reads the markup of calls, and repairs what models do to it (spec recipe.md §8.2,
// "ours"): attributes as TagReader takes them, a JSON object as the body of a call, values without
// a type or of the wrong one. What it writes as arguments is JSON whenever the call is complete,
// unless broken values are to be kept.
//
// 1. The joined output does not depend on how the text is cut.
// 2. Values that must be read as a whole to know what they are wait, up to kMaxWaitingBytes; all
//    others go out as they come.
// 3. It knows whether it repaired anything: it writes down the markup that the format would have
//    written, and compares.
// Owned by its lexer.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "codec/conversation.h"
#include "codec/format/deepseek_v41/tag_reader.h"
#include "codec/format/event_list.h"

namespace sluice::codec::deepseek_v41 {

class RepairingCalls {
 public:
  // `tools` outlives the reader. `keeps_broken_values`: what says that it is JSON and is not goes
  // out as it came, not as a string.
  RepairingCalls(std::span<const Tool> tools, bool keeps_broken_values, EventList& events)
      : tools_(tools), keeps_broken_values_(keeps_broken_values), events_(events) {}

  // The block was opened. `at_invoke`: by the word `invoke` itself. `without_thought`: no reasoning
  // came before, though the model was to think.
  void Begin(bool at_invoke, bool without_thought);

  // One character of text.
  void Take(std::string_view character);
  // Text of whole characters without `<`: the same, faster.
  void TakePlain(std::string_view text);
  // The markup's token `｜DSML｜`.
  void TakeMarkup();
  // The block was closed: nothing of it follows.
  bool closed() const { return state_ == State::kClosed; }

  // The output has ended, by itself or at a limit. A call is complete if all its values are.
  void End(bool at_limit);
  // After End: a call was cut off.
  bool is_cut() const { return is_cut_; }
  // Once closed: the block is written as the format writes one, and nothing was repaired.
  bool is_well_formed() const {
    return state_ == State::kClosed && is_well_formed_ && events_.n_calls() > 0;
  }

 private:
  static constexpr size_t kMaxWaitingBytes = 65'536;

  enum class State : uint8_t {
    kBetween,       // calls
    kInvokeTag,     // behind `<｜DSML｜ invoke`
    kBody,          // of a call, between its parameters
    kParameterTag,  // behind `<｜DSML｜ parameter`
    kValue,
    kClosed,
  };
  // What an open value is written as.
  enum class Type : uint8_t { kString, kJson, kUnknown, kRaw, kSkipped };

  void ReadMarkup(std::string_view text);
  void CompareMarkup();
  void TakeOutsideTag(std::string_view character);
  void TakeTagName(std::string_view character);
  void OpenTag(State tag);
  void EndInvokeTag();
  void EndParameterTag();
  void WriteKey(bool is_closed);
  void TakeInValue(std::string_view text);
  void FlushHeld();
  void EndValue();
  void EndCall();
  bool IsStringBySchema() const;
  void WriteString(std::string_view text);
  void WriteJson(std::string_view text);
  void Write(std::string_view text) { events_.Add(OutputKind::kArguments, text); }

  const std::span<const Tool> tools_;
  const bool keeps_broken_values_;
  EventList& events_;
  State state_ = State::kBetween;
  bool without_thought_ = false;
  bool is_cut_ = false;

  // Since the last value, the last opening tag or the beginning of the block.
  bool is_well_formed_ = true;
  std::string markup_;    // as it was read
  std::string expected_;  // as the format writes it

  // Between tags: what stands before the markup's token, then what follows it.
  std::string_view held_;  // `<` or `</` at the end of the text
  enum class Tag : uint8_t { kNone, kOpening, kClosing } tag_ = Tag::kNone;
  std::string tag_name_;

  TagReader attributes_;
  std::string call_;  // name of the open call
  std::string body_;  // its text outside parameters, as far as it may be JSON
  int32_t n_parameters_ = 0;
  std::string key_;
  Type type_ = Type::kString;
  std::string waiting_;  // the value so far
};

}  // namespace sluice::codec::deepseek_v41
