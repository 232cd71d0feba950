// LineEditor: lines that somebody types, with editing and a history on a terminal, and as they come
// elsewhere. Over libedit. Owned by one thread; one per process.

#pragma once

#include <memory>
#include <string>

namespace sluice::app {

class LineEditor {
 public:
  LineEditor();
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;

  enum class Got : uint8_t {
    kLine,
    kCancelled,  // Ctrl-C; on a terminal only
    kEnd,        // Ctrl-D at an empty line, or the end of the input
  };
  // `line` without its end. On kCancelled it is what stood there.
  Got Read(const std::string& prompt, std::string& line);

  // Somebody types and sees what is answered.
  bool is_terminal() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sluice::app
