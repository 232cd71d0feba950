// FreeText: the text that a custom tool is called with. The model writes it as the argument `input`
// of a function; clients get it decoded, piece by piece (spec recipe.md §8.9). Arguments of any
// other shape pass through as they are. Owned by the net thread.

#pragma once

#include <string>
#include <string_view>

namespace sluice::codec::responses {

class FreeText {
 public:
  // Appends what `piece` of the arguments makes known. However they are cut, the joined text is the
  // same.
  void Push(std::string_view piece, std::string& out);
  // The arguments end here, complete or not.
  void End(std::string& out);

 private:
  enum class State : uint8_t {
    kHead,  // before the value: whether it is `{"input": "` is not known yet
    kText,
    kEscape,   // behind a backslash
    kUnicode,  // in the digits of \uXXXX
    kRaw,
    kDone,
  };

  void PushHead(char c, std::string& out);
  void PushEscape(char c, std::string& out);
  void PushUnicode(char c, std::string& out);
  void EndSurrogate(std::string& out);

  State state_ = State::kHead;
  std::string head_;        // kHead: all of it
  size_t n_matched_ = 0;    // kHead: characters of `{"input":"` that have come
  int n_digits_ = 0;        // kUnicode
  uint32_t unit_ = 0;       // kUnicode
  uint32_t surrogate_ = 0;  // the first half of a pair; 0: none
};

}  // namespace sluice::codec::responses
