// AnswerReader: the events of one streamed answer, in the words of its API, as what a load test
// asks: which event brings output, what the usage is, how it ends, whether it is right. Owned by
// one thread.

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "load/options.h"
#include "load/sse_reader.h"

namespace sluice::load {

struct AnswerUsage {
  bool is_known = false;
  int64_t n_prompt = 0;  // with the cached ones
  int64_t n_cached = 0;
  int64_t n_output = 0;
};

// An answer as a history needs it.
struct AnswerTurn {
  struct Call {
    std::string id;
    std::string name;
    std::string arguments;  // JSON text
  };
  std::string reasoning;
  std::string signature;  // Messages: of the reasoning
  std::string text;
  std::vector<Call> calls;
  std::vector<std::string> items;  // Responses: the output items as they came, JSON
};

class AnswerReader {
 public:
  // `keeps`: collects the turn.
  AnswerReader(Api api, bool keeps) : api_(api), keeps_(keeps) {}

  // Whether this event brings output. An error: the answer is not what its API promises.
  Result<bool> OnEvent(const SseEvent& event);

  bool ended() const { return ended_; }
  // The server said that it failed; empty: it did not.
  const std::string& error() const { return error_; }
  const AnswerUsage& usage() const { return usage_; }
  AnswerTurn& turn() { return turn_; }

  // What can be checked when the body has ended: a terminal event came; the usage is there, its
  // numbers fit each other, the limit and the events that came. `n_max`: 0, no limit is known.
  Status Check(int64_t n_max) const;

 private:
  Result<bool> OnChat(JsonValue root);
  Result<bool> OnChatDelta(JsonValue delta);
  Result<bool> OnMessages(JsonValue root);
  bool OnMessagesBlock(JsonValue block);
  bool OnMessagesDelta(JsonValue delta);
  Result<bool> OnResponses(JsonValue root);
  void OnError(JsonValue error);
  Status Keep(std::string& into, std::string_view text);

  const Api api_;
  const bool keeps_;
  bool ended_ = false;
  std::string error_;
  AnswerUsage usage_;
  AnswerTurn turn_;
  Status kept_;  // not ok: the turn is larger than may be kept
  int64_t kept_bytes_ = 0;
  int64_t n_text_events_ = 0;            // each but the last holds a token
  std::map<int64_t, bool> is_finished_;  // Chat: choices
};

}  // namespace sluice::load
