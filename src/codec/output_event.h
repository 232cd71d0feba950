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

enum class OutputKind : uint8_t { kReasoning, kContent };

struct OutputEvent {
  OutputKind kind;
  std::string_view text;                // complete UTF-8 characters
  std::span<const TokenText> logprobs;  // exactly one per token of visible text, if asked for
};

// Why a choice ended, as clients see it.
enum class Finish : uint8_t { kStop, kStopString, kLength, kToolCalls, kContentFilter };

}  // namespace sluice::codec
