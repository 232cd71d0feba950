// Encoder: OutputEvents as the bytes of a Chat Completions answer, streamed or whole
// (dialect/chat/schema.md). One per request; owned by the net thread.

#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "codec/conversation.h"
#include "codec/dialect.h"
#include "codec/output_event.h"
#include "wire/event.h"
#include "wire/usage.h"

namespace sluice::codec::chat {

// An AnswerEncoder (dialect/encoder.h).
class Encoder {
 public:
  // `spec` outlives the encoder.
  Encoder(const AnswerSpec& spec, const AnswerIdentity& identity);

  void Begin(int32_t choice, const wire::Usage& prompt_usage, std::string& out);
  void OnPrompt(int32_t choice, const PromptPiece& piece, std::string& out);
  void OnEvent(int32_t choice, const OutputEvent& event, std::string& out);
  void End(int32_t choice, const ChoiceEnd& end, const wire::Usage* usage, std::string& out);

  int64_t held_bytes() const { return held_bytes_; }
  void Finish(const wire::Usage& usage, std::string& out);

  void OnProgress(const wire::PromptProgress& prompt, std::string& out) const;
  void Heartbeat(std::string& out) const;
  void Fail(const Status& status, std::string_view request_id, std::string& out) const;

 private:
  struct Call {
    std::string id;
    std::string name;
    std::string arguments;
  };
  struct Choice {
    std::string start;                    // stream: a chunk up to its delta
    std::array<std::string, 2> head;      // stream: a text chunk up to its text, by kind
    std::array<std::string, 2> text;      // whole: what has come, by kind
    std::array<std::string, 2> logprobs;  // whole: entries, by kind
    std::vector<Call> calls;              // whole
    const char* finish_reason = "";
  };

  void OnCallEvent(Choice& choice, const OutputEvent& event, std::string& out);
  void KeepCallEvent(Choice& choice, const OutputEvent& event);
  void AppendCalls(const std::vector<Call>& calls, std::string& out) const;
  void AppendTail(std::string_view delta_end,
                  std::string_view logprobs,
                  std::string_view finish,
                  std::string& out) const;
  void AppendChoice(int32_t index, std::string& out) const;
  std::string ReasoningMember(std::string_view value) const;
  std::string Head(std::string_view object) const;

  const AnswerSpec& spec_;
  const AnswerIdentity identity_;
  const bool starts_in_reasoning_;
  std::array<std::string, 2> delta_end_;  // behind the text of a chunk, by kind
  std::array<std::string, 2> tail_;       // delta_end_ and everything after it
  std::vector<Choice> choices_;
  std::string logprobs_;         // scratch of OnEvent
  std::string prompt_logprobs_;  // whole: a comma-separated list without brackets
  int64_t held_bytes_ = 0;
};

}  // namespace sluice::codec::chat
