// OutputEvent: a piece of the model's answer as text, whatever model format it came in and whatever
// API it leaves through. An output lexer makes them, a dialect's encoder writes them. The views
// live until the call returns.

#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "wire/event.h"

namespace sluice::codec {

// One visible token with its log probability; `text` is its bytes, which need not be UTF-8 by
// themselves.
struct TokenText {
  std::string_view text;
  float logprob;
  struct Alternative {
    std::string_view text;
    float logprob;
  };
  std::span<const Alternative> alternatives;
};

enum class OutputKind : uint8_t {
  kReasoning,
  kContent,
  kCall,       // a call begins; text: its name, as the model wrote it
  kArguments,  // the next piece of its arguments: joined, they are JSON text
  kCallEnd,    // it is complete; a call without one was cut
};

struct OutputEvent {
  OutputKind kind;
  std::string_view text;                // complete UTF-8 characters
  std::span<const TokenText> logprobs;  // exactly one per token of visible text, if asked for
  int32_t call = 0;                     // index of the call, from 0
  std::string_view call_id;             // kCall
};

// A token of the prompt with its score.
struct PromptToken {
  int32_t id = 0;
  int32_t pos = 0;                            // in the prompt
  std::string_view text;                      // its bytes
  const wire::TokenLogprob* score = nullptr;  // null: nothing stands before it
  std::span<const std::string_view> others;   // the texts of the score's alternatives
};

// The next tokens of the prompt, and the whole characters that they complete of what the client
// wrote.
struct PromptPiece {
  std::span<const PromptToken> tokens;
  std::string_view text;
};

// How far a lexer has come: nothing that follows an end is shown or counted.
enum class OutputEnd : uint8_t { kNot, kStopString, kCallsClosed, kEndOfSentence };

// Why a choice ended, as clients see it.
enum class Finish : uint8_t { kStop, kStopString, kLength, kToolCalls, kContentFilter };

struct ChoiceEnd {
  Finish finish = Finish::kStop;
  std::string_view stop;  // kStopString: the one that was found
};

}  // namespace sluice::codec
