// CallReader: what stands between <tool_call> and </tool_call>: {"name": …, "arguments": {…}}, or a
// list of such objects. Both ways are read for every family, and members in any order.
//
// A call is told once its name is known and its arguments have begun; from then on they are told as
// they come (json_stream.h). Owned by its lexer.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "codec/format/chatml/json_stream.h"
#include "codec/format/event_list.h"

namespace sluice::codec::chatml {

class CallReader {
 public:
  explicit CallReader(EventList& events) : events_(events) {}

  // Behind <tool_call>.
  void Begin();

  enum class State : uint8_t {
    kInside,  // of a list or an object
    kBehind,  // of all that was begun: only white space and </tool_call> may follow
    kBroken,  // it is no call
  };
  // Takes a whole character. Behind kBroken nothing is taken.
  State Take(std::string_view c);
  State state() const { return state_; }
  // In front of </tool_call>, or at the end of the output: brackets that are still missing between
  // members or objects are added. False: the call is not complete even with them.
  bool EndEarly();

  // The call that is being read was told, and cannot be taken back.
  bool has_told() const { return has_told_; }
  // Written otherwise than the format writes it, white space apart.
  bool is_repaired() const { return is_repaired_; }

 private:
  enum class Part : uint8_t {
    kOpening,  // of the block: a list or an object
    kObject,   // the next object of a list, or its end
    kKey,      // a key, or the end of the object
    kInKey,
    kColon,
    kValueBegin,
    kValue,
    kAfterValue,  // a comma, or the end of the object
    kAfterObject  // a comma, or the end of the list
  };
  enum class Member : uint8_t { kName, kArguments, kOther };

  State TakeOutside(std::string_view c);
  State TakeValue(std::string_view c);
  bool KeepWritten();
  State BeginValue(std::string_view c);
  State EndValue();
  State BeginObject();
  State EndObject();
  State Break() { return state_ = State::kBroken; }
  bool Tell();

  // A name or key, and arguments in front of the name, may have so many bytes.
  static constexpr size_t kMaxNameBytes = 1024;
  static constexpr size_t kMaxWaitingBytes = 65'536;

  EventList& events_;
  State state_ = State::kInside;
  Part part_ = Part::kOpening;
  bool in_list_ = false;
  Member member_ = Member::kOther;
  JsonStream value_;     // of a member, or its key
  std::string written_;  // by value_ for one character; scratch
  std::string text_;     // of a key, a name, arguments in quotes
  std::string name_;     // of the call; empty: not known
  std::string waiting_;  // arguments in front of the name
  bool has_arguments_ = false;
  bool is_quoted_ = false;  // the arguments are a string that has the JSON
  bool has_told_ = false;
  bool is_repaired_ = false;
};

}  // namespace sluice::codec::chatml
