// Encoder: OutputEvents as the bytes of a Messages answer, streamed or whole
// (dialect/messages/schema.md). One per request; owned by the net thread.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "codec/conversation.h"
#include "codec/dialect.h"
#include "codec/output_event.h"
#include "wire/usage.h"

namespace sluice::codec::messages {

// {"type": "error", "error": {"type", "message"}, "request_id"}
std::string ErrorBody(const Status& status, std::string_view request_id);

// An AnswerEncoder (dialect/encoder.h). This API has one choice.
class Encoder {
 public:
  // `spec` outlives the encoder.
  Encoder(const AnswerSpec& spec, const AnswerIdentity& identity);

  void Begin(int32_t choice, const wire::Usage& usage, std::string& out);
  void OnEvent(int32_t choice, const OutputEvent& event, std::string& out);
  void End(int32_t choice, const ChoiceEnd& end, const wire::Usage* usage, std::string& out);
  void Finish(const wire::Usage& usage, std::string& out);
  void Heartbeat(std::string& out);
  void Fail(const Status& status, std::string_view request_id, std::string& out) const;
  int64_t held_bytes() const { return held_bytes_; }

 private:
  enum class BlockKind : uint8_t { kThinking, kText, kToolUse };

  // Whole: a block of the answer.
  struct Block {
    BlockKind kind;
    std::string id;    // kToolUse
    std::string name;  // kToolUse
    std::string text;  // of a kToolUse: its arguments
  };

  void Start(const wire::Usage& usage, std::string& out);
  void Open(BlockKind kind, const OutputEvent* call, std::string& out);
  void Append(std::string_view text, std::string& out);
  void Close(std::string& out);
  void AppendBlocks(std::string& out) const;

  const AnswerSpec& spec_;
  const std::string id_;
  std::optional<BlockKind> open_;
  std::string delta_head_;  // stream: a delta of the open block up to its text
  int32_t n_blocks_ = 0;    // opened so far
  std::vector<Block> blocks_;
  bool has_started_ = false;
  bool call_has_ended_ = false;  // the latest one
  bool has_cut_call_ = false;
  std::string ending_;  // whole: stop_reason and stop_sequence as members
  int64_t held_bytes_ = 0;
};

}  // namespace sluice::codec::messages
