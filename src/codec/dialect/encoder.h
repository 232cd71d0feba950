// Encoder: a model's answer in the form of one API, streamed or whole. The dialects are a closed
// set known at compile time (ARCHITECTURE.md §5.7): each has a class with the members of
// AnswerEncoder, and an Answer holds one of them. Owned by the net thread.

#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "base/status.h"
#include "codec/conversation.h"
#include "codec/dialect/chat/encode.h"
#include "codec/dialect/completions/encode.h"
#include "codec/dialect/messages/encode.h"
#include "codec/dialect/responses/encode.h"
#include "codec/output_event.h"
#include "wire/usage.h"

namespace sluice::codec {

template <typename T>
concept AnswerEncoder = requires(T encoder,
                                 int32_t choice,
                                 const wire::Usage& usage,
                                 const wire::Usage* last_usage,
                                 const OutputEvent& event,
                                 const ChoiceEnd& end,
                                 const Status& status,
                                 std::string_view request_id,
                                 std::string& out) {
  // A choice, in this order: Begin, OnEvent for each event, End. `usage` of Begin: the prompt's
  // tokens and how many were cached, as far as known. `last_usage`: null except on the last choice
  // of a stream that asked for no usage chunk of its own.
  { encoder.Begin(choice, usage, out) } -> std::same_as<void>;
  { encoder.OnEvent(choice, event, out) } -> std::same_as<void>;
  { encoder.End(choice, end, last_usage, out) } -> std::same_as<void>;
  // After all choices.
  { encoder.Finish(usage, out) } -> std::same_as<void>;
  // In a silence: a form that this API's clients count as a sign of life.
  { encoder.Heartbeat(out) } -> std::same_as<void>;
  // Stream: an error frame that the SDKs raise, and what ends the stream. Whole: the error body.
  { encoder.Fail(status, request_id, out) } -> std::same_as<void>;
  // Memory that the answer holds until Finish.
  { encoder.held_bytes() } -> std::same_as<int64_t>;
};

using Encoder =
    std::variant<chat::Encoder, messages::Encoder, completions::Encoder, responses::Encoder>;
static_assert(AnswerEncoder<chat::Encoder>);
static_assert(AnswerEncoder<messages::Encoder>);
static_assert(AnswerEncoder<completions::Encoder>);
static_assert(AnswerEncoder<responses::Encoder>);

}  // namespace sluice::codec
