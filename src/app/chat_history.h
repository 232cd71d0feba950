// ChatHistory: a conversation as Chat Completions has it, turn by turn, with what applies to all of
// it. Plain value, owned by one thread.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace sluice::app {

struct ChatCall {
  std::string id;
  std::string name;
  std::string arguments;
};

// What the model has said in a turn.
struct ChatAnswer {
  std::string reasoning;
  std::string content;
  std::vector<ChatCall> calls;
};

class ChatHistory {
 public:
  std::string model;
  std::string system;       // empty: none
  std::string tools;        // JSON array; empty: none
  std::string effort;       // "low", "75", "none"; empty: the server's
  int32_t n_max = 0;        // tokens of an answer; 0: the default
  double temperature = -1;  // below 0: the default

  void AddUser(std::string_view text);
  void AddResult(const ChatCall& call, std::string_view text);
  void AddAnswer(const ChatAnswer& answer);
  void Clear() { messages_.clear(); }

  // A mark to which Forget goes back.
  size_t size() const { return messages_.size(); }
  void Forget(size_t size) { messages_.resize(size); }

  // The body of the request for the next answer.
  std::string ToBody() const;

 private:
  std::vector<std::string> messages_;  // JSON objects
};

// Whether the text of `/think` is one that ToBody may use; "on" and "off" have become efforts.
Result<std::string> ReadEffort(std::string_view text);

}  // namespace sluice::app
