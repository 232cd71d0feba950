// The API surfaces, one line each. serve takes its routes from here.

#include "codec/dialect.h"
#include "codec/dialect/chat/decode.h"
#include "codec/dialect/error_body.h"
#include "codec/dialect/responses/decode.h"

namespace sluice::codec {
namespace {

constexpr const char* kChatPaths[] = {"/v1/chat/completions", "/chat/completions",
                                      "/beta/chat/completions"};

constexpr const char* kResponsesPaths[] = {"/v1/responses", "/responses"};

constexpr Dialect kDialects[] = {
    {.api = Api::kChat,
     .name = "chat",
     .paths = kChatPaths,
     .decode = &chat::Decode,
     .error_body = &OpenAiErrorBody},
    {.api = Api::kResponses,
     .name = "responses",
     .paths = kResponsesPaths,
     .decode = &responses::Decode,
     .error_body = &OpenAiErrorBody},
};

}  // namespace

std::span<const Dialect> Dialects() { return kDialects; }

}  // namespace sluice::codec
