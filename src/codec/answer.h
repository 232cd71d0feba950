// The codec's door for answers: TokenEvents in, the bytes of the response body out (SSE frames or
// one JSON object). One Answer per request; owned by the net thread. hop 10.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "codec/conversation.h"
#include "codec/dialect.h"
#include "codec/format.h"
#include "codec/output_event.h"
#include "wire/event.h"
#include "wire/usage.h"

namespace sluice::codec {

class Answer {
 public:
  // What `format` names outlives the answer.
  Answer(const Dialect& dialect, Format format, AnswerSpec spec, AnswerIdentity identity);
  ~Answer();
  Answer(Answer&&) noexcept;

  // Stream: appends what the event makes visible, in one or more whole SSE frames.
  // Non-stream: keeps it. `event` may be terminal without error; errors go through Fail. After
  // kCancel the events of the choice, its terminal one with whatever status included, may still be
  // passed: they add no text, and only the terminal one tells how much of the prompt was cached.
  enum class Next : uint8_t {
    kMore,
    kChoiceDone,  // terminal event seen
    kCancel,  // the answer is complete before the model's end token (a stop string, the end of the
              // calls): cancel this choice; its terminal event is still to come
  };
  Next OnEvent(int32_t choice, const wire::TokenEvent& event, std::string& out);

  // After every choice is done or to be cancelled: the last finish frame, the usage frame and the
  // end mark, or the whole JSON body.
  void Finish(std::string& out);

  // Stream, if it tells_progress, before the first token: how far the prompt is.
  void Progress(const wire::PromptProgress& prompt, std::string& out);

  // In a silence: a form that this API's clients count as a sign of life.
  void Heartbeat(std::string& out);

  // Stream: an error frame that the SDKs raise, and what ends the stream. Non-stream: the error
  // body.
  void Fail(const Status& status, std::string_view request_id, std::string& out);

  // Memory that an answer holds until Finish; a stream holds none.
  int64_t held_bytes() const;

  // Why a choice ended, once OnEvent has said kCancel or kChoiceDone.
  codec::Finish finish(int32_t choice) const;

  // Sum over choices so far; the prompt counts once, its cached part as the first choice found it.
  wire::Usage usage() const;

  const AnswerSpec& spec() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sluice::codec
