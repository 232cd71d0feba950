// The API surfaces, one line each. serve takes its routes from here.

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/check.h"

#include "codec/dialect.h"
#include "codec/dialect/chat/decode.h"
#include "codec/dialect/completions/decode.h"
#include "codec/dialect/error_body.h"
#include "codec/dialect/messages/decode.h"
#include "codec/dialect/messages/encode.h"
#include "codec/dialect/responses/decode.h"

namespace sluice::codec {
namespace {

constexpr const char* kChatPaths[] = {"/v1/chat/completions", "/chat/completions",
                                      "/beta/chat/completions"};

constexpr const char* kCompletionsPaths[] = {"/v1/completions", "/completions",
                                             "/beta/completions"};

constexpr const char* kMessagesPaths[] = {"/v1/messages", "/anthropic/v1/messages"};

// Clients read the numbers out of it (spec http-api.md §10.1): the first is the larger one.
std::string MessagesOverflowText(const Overflow& overflow) {
  std::string text = fmt::format("prompt is too long: {} tokens > {} maximum",
                                 overflow.n_prompt + overflow.n_asked, overflow.n_context);
  if (overflow.n_asked == 0) return text;
  return text + fmt::format(" ({} in the prompt, {} asked for by `max_tokens`)", overflow.n_prompt,
                            overflow.n_asked);
}

constexpr const char* kResponsesPaths[] = {"/v1/responses", "/responses"};

constexpr Dialect kDialects[] = {
    {.api = Api::kChat,
     .name = "chat",
     .paths = kChatPaths,
     .decode = &chat::Decode,
     .error_body = &OpenAiErrorBody},
    {.api = Api::kMessages,
     .name = "messages",
     .paths = kMessagesPaths,
     .decode = &messages::Decode,
     .error_body = &messages::ErrorBody,
     .overflow_text = &MessagesOverflowText,
     .overloaded_status = 529},
    {.api = Api::kCompletions,
     .name = "completions",
     .paths = kCompletionsPaths,
     .decode = &completions::Decode,
     .error_body = &OpenAiErrorBody},
    {.api = Api::kResponses,
     .name = "responses",
     .paths = kResponsesPaths,
     .decode = &responses::Decode,
     .error_body = &OpenAiErrorBody},
};

}  // namespace

std::string OverflowText(const Overflow& overflow) {
  return fmt::format(
      "This model's maximum context length is {} tokens. However, you requested {} tokens ({} in "
      "the messages, {} in the completion). Please reduce the length of the messages or "
      "completion.",
      overflow.n_context, overflow.n_prompt + overflow.n_asked, overflow.n_prompt,
      overflow.n_asked);
}

std::span<const Dialect> Dialects() { return kDialects; }

const Dialect& DialectOf(Api api) {
  const Dialect* found = std::ranges::find(kDialects, api, &Dialect::api);
  SLUICE_CHECK(found != std::end(kDialects));
  return *found;
}

int32_t HttpStatusOf(const Dialect& dialect, ErrorCode code) {
  return code == ErrorCode::kOverloaded ? dialect.overloaded_status : RowOf(code).http_status;
}

}  // namespace sluice::codec
