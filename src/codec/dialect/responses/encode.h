// Encoder: OutputEvents as a Responses answer, a stream of typed events or one response object
// (dialect/responses/schema.md). One per request; owned by the net thread.
//
// 1. An item is one identity everywhere: what its last event holds is what the final response
// holds,
//    byte for byte.
// 2. Events are numbered from 0 without a gap, and a stream ends with exactly one of completed,
//    incomplete and failed.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_writer.h"
#include "base/status.h"
#include "codec/conversation.h"
#include "codec/dialect.h"
#include "codec/dialect/responses/free_text.h"
#include "codec/dialect/responses/item_writer.h"
#include "codec/dialect/responses/response_store.h"
#include "codec/output_event.h"
#include "wire/usage.h"

namespace sluice::codec::responses {

// An AnswerEncoder (dialect/encoder.h).
class Encoder {
 public:
  // `spec` outlives the encoder.
  Encoder(const AnswerSpec& spec, const AnswerIdentity& identity);

  void Begin(int32_t choice, const wire::Usage& prompt_usage, std::string& out);
  void OnEvent(int32_t choice, const OutputEvent& event, std::string& out);
  void End(int32_t choice, const ChoiceEnd& end, const wire::Usage* usage, std::string& out);

  // Also keeps the response, if it is to be kept.
  void Finish(const wire::Usage& usage, std::string& out);

  void Heartbeat(std::string& out);
  void Fail(const Status& status, std::string_view request_id, std::string& out);
  // Also of a stream: its last event holds the whole answer once more.
  int64_t held_bytes() const { return held_bytes_; }

 private:
  // What is written of a response besides what it repeats of its request.
  struct Outline {
    std::string_view status;
    std::string_view incomplete_reason;  // empty: none
    std::string_view error_code;         // empty: none
    std::string_view error_message;
    const wire::Usage* usage = nullptr;
    bool is_stored = false;
  };

  void Open(OutputItemKind kind);
  void Announce(std::string& out);
  void OpenCall(const OutputEvent& event, std::string& out);
  void AddText(const OutputEvent& event, std::string& out);
  void AddArguments(std::string_view piece, std::string& out);
  void WriteDelta(std::string_view text, std::string_view logprobs, std::string& out);
  void Close(const ItemEnd& end, std::string& out);
  void WriteTextEnd(std::string& out);
  void WritePartEvent(std::string_view type, bool is_new, std::string& out);

  // An event up to its own members, and its end.
  JsonWriter BeginEvent(std::string_view type, std::string& out);
  JsonWriter BeginItemEvent(std::string_view type, std::string& out);
  static void EndEvent(JsonWriter& w, std::string& out);
  // One whose only member is the response.
  void EventOf(std::string_view type, const Outline& outline, std::string& out);
  // The response object up to its last member, `output`, open.
  std::string Head(const Outline& outline) const;
  StoredResponse Whole(const Outline& outline) const;

  const AnswerSpec& spec_;
  const std::string id_;  // "resp_…"
  const int64_t created_s_;
  int64_t n_events_ = 0;
  bool has_begun_ = false;
  codec::Finish finish_ = codec::Finish::kStop;
  std::optional<OutputItem> open_;
  FreeText free_text_;      // of an open custom call
  std::string delta_head_;  // of the open item: an event up to its text
  std::string logprobs_;    // scratch of AddText
  std::vector<StoredItem> done_;
  int64_t held_bytes_ = 0;
};

}  // namespace sluice::codec::responses
