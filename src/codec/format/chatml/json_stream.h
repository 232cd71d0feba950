// JsonStream: one JSON value that comes character by character, written out as it comes, so that
// what was written joined is JSON whatever came. Outside of strings white space is left out, and
// one space is written behind a comma or colon; in strings a raw control character or a backslash
// that begins no escape is written as an escape, half a surrogate pair as \ufffd. A comma in front
// of a closing bracket is dropped. Numbers are written as they come, also those that no double
// holds.
//
// Memory is bounded: a stack of one bit for each container, and a number or word of kMaxWordBytes.
// Owned by its reader.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::codec::chatml {

// A character between the tokens of JSON.
bool IsSpace(std::string_view character);

class JsonStream {
 public:
  enum class State : uint8_t {
    kInside,
    kDone,  // the value is complete; what follows is not looked at
    kBad,   // it cannot become JSON any more
  };

  // Takes the next whole character and appends what can be written. A number or word ends only in
  // front of another character: then the state is kDone and `is_taken` false, as that one is not
  // part of it.
  State Take(std::string_view character, std::string& out, bool& is_taken);

  // Something was written otherwise than it came, white space apart.
  bool is_repaired() const { return is_repaired_; }

 private:
  enum class Expects : uint8_t { kValue, kFirstOrEnd, kKey, kColon, kCommaOrEnd };

  State TakeOutside(std::string_view c, std::string& out, bool& is_taken);
  State TakeInString(std::string_view c, std::string& out);
  State TakeInEscape(std::string_view c, std::string& out);
  void EndUnicodeEscape(std::string& out);
  void ReplaceHalf(std::string& out);
  State TakeInWord(std::string_view c, std::string& out, bool& is_taken);
  State Open(bool is_object, std::string& out);
  State Close(bool is_object, std::string& out);
  State EndValue();
  void WriteComma(std::string& out);

  static constexpr size_t kMaxWordBytes = 128;
  static constexpr size_t kUnicodeEscapeBytes = 6;  // \uXXXX

  Expects expects_ = Expects::kValue;
  std::vector<bool> open_;  // true: an object
  bool has_comma_ = false;  // was read and is not written yet
  bool in_string_ = false;
  bool is_key_ = false;
  std::string escape_;  // from the backslash on, while it is incomplete
  std::string half_;    // the escape of the first half of a surrogate pair
  std::string word_;    // a number, true, false, null
  bool is_repaired_ = false;
};

}  // namespace sluice::codec::chatml
