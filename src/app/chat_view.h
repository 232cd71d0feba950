// ChatView: an answer as it streams: shown on a terminal and collected for the history. Reads the
// events that a client of Chat Completions gets. Owned by one thread.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "app/chat_history.h"

namespace sluice::app {

class ChatView {
 public:
  // `is_terminal`: reasoning is shown, dimmed; else only what was answered.
  explicit ChatView(bool is_terminal) : is_terminal_(is_terminal) {}

  // Whole events, as Answer::OnEvent and Finish give them.
  void Take(std::string_view events);
  // The end of the turn's output, whether it was complete or not.
  void Close();

  const ChatAnswer& answer() const { return answer_; }
  int64_t n_prompt() const { return n_prompt_; }  // tokens; of the usage, once it has come
  int64_t n_completion() const { return n_completion_; }

 private:
  enum class Part : uint8_t { kNone, kReasoning, kContent, kCall };

  void TakeChunk(std::string_view json);
  void Show(Part part, std::string_view text);

  const bool is_terminal_;
  ChatAnswer answer_;
  Part part_ = Part::kNone;
  bool ends_line_ = true;  // what was shown last
  int64_t n_prompt_ = 0;
  int64_t n_completion_ = 0;
};

// Text of a model on a terminal: control characters, which could do anything there, are spelled.
std::string TerminalText(std::string_view text);

// As comments are on a terminal.
std::string Dim(std::string_view text);

}  // namespace sluice::app
