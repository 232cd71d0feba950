// Message content of a Chat request: a string or a list of parts. Pure functions.

#pragma once

#include <cstdint>
#include <string>

#include "base/json.h"
#include "base/status.h"

namespace sluice::codec::chat {

// Types only. `path` is "messages[2].content".
Status CheckContentShape(const std::string& path, const JsonValue& content);

// Appends the texts, parts joined with two line feeds. Images and files are refused: malformed ones
// with the reference's words, the others because this build reads text only. `content` passed
// CheckContentShape.
struct ContentPlace {
  int32_t message;
  bool is_assistant;
};
Status ReadContent(const ContentPlace& place, const JsonValue& content, std::string& text);

}  // namespace sluice::codec::chat
