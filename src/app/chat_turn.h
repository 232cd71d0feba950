// ChatTurns: one answer after the other from a service in this process, streamed to the terminal.
// Owned by the command's thread.

#pragma once

#include <memory>

#include "app/app_options.h"
#include "app/chat_history.h"
#include "base/result.h"
#include "env/env.h"

namespace sluice::app {

class ChatTurns {
 public:
  // Loads the model; returns when it can be asked.
  static Result<std::unique_ptr<ChatTurns>> Open(const Env& env, const AppOptions& options);
  ~ChatTurns();

  std::string model_name() const;  // as requests call it

  // The answer to the history, shown as it comes, dimmed reasoning and counts on a terminal only.
  // kCancelled when Ctrl-C ended it; other errors are what a client would get, in words.
  Result<ChatAnswer> Run(const ChatHistory& history, bool is_terminal);

 private:
  struct Parts;
  explicit ChatTurns(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace sluice::app
