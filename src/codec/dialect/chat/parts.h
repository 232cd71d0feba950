// Message content of a Chat request: a string or a list of parts. Pure functions.

#pragma once

#include <cstdint>
#include <string>

#include "base/json.h"
#include "base/status.h"
#include "codec/conversation.h"

namespace sluice::codec::chat {

// Types only. `path` is "messages[2].content".
Status CheckContentShape(const std::string& path, const JsonValue& content);

// The texts, parts joined with two line feeds, and the images between them. `content` passed
// CheckContentShape. Malformed images are refused with the reference's words.
Status ReadContent(int32_t message_index, const JsonValue& content, Message& message);

}  // namespace sluice::codec::chat
